/**
 * Applies the example to an organisation's namespace. The example brings a namespace of its own, with an organisation's
 * id: that stays out.
 */
export function exampleFor(namespace: string): string {
  if (namespace === "acme") return "kubectl apply -k examples/quickstart";
  const moved = `sed 's/namespace: acme$/namespace: ${namespace}/; s/shop[.]acme[.]svc/shop.${namespace}.svc/'`;
  return `kubectl kustomize examples/quickstart | ${moved} | kubectl apply -l '!tieline.dev/organisation' -f -`;
}

/** One word of a shell, whatever it is. */
export function shell(text: string): string {
  if (/^[A-Za-z0-9_./-]+$/.test(text) && !text.startsWith("-")) return text;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a line that is pasted must not end early
  return `'${text.replace(/[\x00-\x1f\x7f]/g, " ").replace(/'/g, `'\\''`)}'`;
}

/** Binds a user to a role of Tieline. */
export function bindingOf(user: string, subject: string, namespace: string): string {
  const name = user.toLowerCase().replace(/[^a-z0-9.-]/g, "-");
  return `kubectl create rolebinding ${name} -n ${namespace} --clusterrole=tieline-editor --user=${shell(subject)}`;
}

/** Deletes a role binding. Kubernetes lets its name be almost any text. */
export function unbinding(name: string, namespace: string): string {
  return `kubectl delete rolebinding -n ${namespace} -- ${shell(name)}`;
}
