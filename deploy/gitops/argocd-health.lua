-- Health of every kind of tieline.dev for Argo CD: what the operator says of the newest spec, and nothing older.
local function condition(name)
  for _, found in ipairs(obj.status.conditions or {}) do
    if found.type == name then
      return found
    end
  end
end

if obj.status == nil or obj.status.conditions == nil then
  return {status = "Progressing", message = "The operator has not looked at it yet"}
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "The operator has not looked at the newest change yet"}
end
local stalled = condition("Stalled")
if stalled ~= nil and stalled.status == "True" then
  return {status = "Degraded", message = stalled.message}
end
local ready = condition("Ready")
if ready ~= nil and ready.status == "True" then
  return {status = "Healthy", message = ready.message}
end
return {status = "Progressing", message = ready ~= nil and ready.message or "It is not ready yet"}
