import type { Schemas } from "../api/client";

/** The compute resources of a pod, as fields of a form; empty ones are not set. */
export interface Amounts {
  requestsCpu: string;
  requestsMemory: string;
  limitsCpu: string;
  limitsMemory: string;
}

/** The fields of what an environment has. Values of other types are ignored. */
export function amountsOf(resources: Record<string, unknown>): Amounts {
  const amount = (part: string, name: string) => {
    const found = resources[part];
    const value =
      typeof found === "object" && found !== null ? (found as Record<string, unknown>)[name] : undefined;
    return typeof value === "string" || typeof value === "number" ? String(value) : "";
  };
  return {
    requestsCpu: amount("requests", "cpu"),
    requestsMemory: amount("requests", "memory"),
    limitsCpu: amount("limits", "cpu"),
    limitsMemory: amount("limits", "memory"),
  };
}

/** The resources of a request; those of the environment are replaced by them. */
export function resourcesOf(amounts: Amounts): Schemas["Resources"] {
  const part = (cpu: string, memory: string) => ({ ...(cpu ? { cpu } : {}), ...(memory ? { memory } : {}) });
  const requests = part(amounts.requestsCpu, amounts.requestsMemory);
  const limits = part(amounts.limitsCpu, amounts.limitsMemory);
  return {
    ...(Object.keys(requests).length > 0 ? { requests } : {}),
    ...(Object.keys(limits).length > 0 ? { limits } : {}),
  };
}
