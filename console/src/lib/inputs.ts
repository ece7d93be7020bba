import type { Schemas } from "../api/client";

/** A variable of a system's URLs that people fill in. */
export type Input = Schemas["OfferedInput"];
type Variable = Schemas["UrlVariable"];

/** The inputs of a system, with the defaults that its variables have. */
export function inputsOf(system: Schemas["System"] | undefined): Input[] {
  const defaults = new Map((system?.variables ?? []).map(({ name, value }) => [name, value]));
  return (system?.inputs ?? []).map((each) => ({ ...each, value: defaults.get(each.name) }));
}

/** The name for people. */
export function labelOf(input: Input): string {
  return input.label || input.name;
}

/** Whether it has to be filled in. */
export function isRequired(input: Input): boolean {
  return input.required ?? !input.value;
}

/** The value in what was pasted: a URL or host that ends in the suffix is cut down, all else stays as it is. */
export function valueIn(pasted: string, suffix = ""): string {
  const text = pasted.trim();
  const host = text.replace(/^https?:\/\//i, "").split(/[/?#\\]/, 1)[0] ?? "";
  const value = host.slice(0, -suffix.length);
  return suffix && value && host.toLowerCase().endsWith(suffix.toLowerCase()) ? value : text;
}

/** The variables of a connection with what was entered for inputs; empty ones are left out, others stay. */
export function variablesOf(inputs: Input[], values: Record<string, string>, stored: Variable[] = []): Variable[] {
  const names = new Set(inputs.map(({ name }) => name));
  const given = inputs.map(({ name, suffix }) => ({ name, value: valueIn(values[name] ?? "", suffix ?? "") }));
  return [...given.filter(({ value }) => value), ...stored.filter(({ name }) => !names.has(name))];
}

/** What the fields hold at first: what the connection has, or the defaults. */
export function valuesOf(inputs: Input[], stored: Variable[] = []): Record<string, string> {
  const known = new Map(stored.map(({ name, value }) => [name, value]));
  return Object.fromEntries(inputs.map(({ name, value }) => [name, known.get(name) ?? value ?? ""]));
}
