import type { Schemas } from "../api/client";
import { changedValues } from "./schema";

type System = Schemas["System"];
type Input = Schemas["SystemInput"];
type Lists = Schemas["ListsInput"];

/** An input of a system while it is entered. */
export interface InputRow {
  id: number;
  name: string;
  label: string;
  description: string;
  example: string;
  suffix: string;
  hosts: string;
  /** What the form does not show, and keeps. */
  stored?: Input;
}

/** A system while it is entered. */
export interface SystemDraft {
  name: string;
  domain: string;
  baseUrl: string;
  variables: string;
  inputs: InputRow[];
  concurrent?: number;
  requests?: number;
  per: string;
  checkMethod: string;
  checkPath: string;
  /** JSON that a POST sends. */
  checkBody: string;
  checkStatuses: string;
  checkContains: string;
  graphqlPath: string;
  /** The pagination of lists, as JSON. */
  lists: string;
}

export const EMPTY: SystemDraft = {
  name: "",
  domain: "",
  baseUrl: "",
  variables: "",
  inputs: [],
  concurrent: undefined,
  requests: undefined,
  per: "",
  checkMethod: "GET",
  checkPath: "",
  checkBody: "",
  checkStatuses: "",
  checkContains: "",
  graphqlPath: "",
  lists: "",
};

/** A stored system, to be changed. */
export function draftOfSystem(system: System): SystemDraft {
  return {
    name: system.name,
    domain: system.domain,
    baseUrl: system.templateBaseUrl,
    variables: system.variables.map(({ name, value }) => `${name}=${value}`).join("\n"),
    inputs: (system.inputs ?? []).map((each, id) => ({
      id,
      name: each.name,
      label: each.label ?? "",
      description: each.description ?? "",
      example: each.example ?? "",
      suffix: each.suffix ?? "",
      hosts: (each.hosts ?? []).join(" "),
      stored: each,
    })),
    concurrent: system.limits?.concurrent ?? undefined,
    requests: system.limits?.requests ?? undefined,
    per: system.limits?.per ?? "",
    checkMethod: system.check?.method ?? "GET",
    checkPath: system.check?.path ?? "",
    checkBody: system.check?.body ?? "",
    checkStatuses: (system.check?.expect?.statuses ?? []).join(" "),
    checkContains: system.check?.expect?.contains ?? "",
    graphqlPath: system.graphqlPath ?? "",
    lists: system.lists ? JSON.stringify(system.lists, null, 2) : "",
  };
}

export function newInput(rows: InputRow[]): InputRow {
  const id = Math.max(-1, ...rows.map((each) => each.id)) + 1;
  return { id, name: "", label: "", description: "", example: "", suffix: "", hosts: "" };
}

/** The variables of lines such as `shop=acme`. Throws Error for any other line. */
export function variablesOf(text: string): Schemas["UrlVariable"][] {
  return text
    .split("\n")
    .map((each) => each.trim())
    .filter(Boolean)
    .map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`“${line}” is not a variable: use NAME=VALUE, one per line.`);
      return { name: line.slice(0, at).trim(), value: line.slice(at + 1).trim() };
    });
}

/** The content of a request. Throws Error for invalid input. Keeps what the form does not show. */
export function systemOf(draft: SystemDraft, stored?: System) {
  const { answers, cost } = stored?.limits ?? {};
  return {
    name: draft.name.trim(),
    domain: draft.domain.trim() || hostOf(draft.baseUrl),
    templateBaseUrl: draft.baseUrl.trim(),
    variables: variablesOf(draft.variables),
    inputs: draft.inputs.map(inputOf),
    limits: {
      ...(answers ? { answers } : {}),
      ...(cost ? { cost } : {}),
      ...(draft.concurrent === undefined ? {} : { concurrent: draft.concurrent }),
      ...(draft.requests === undefined ? {} : { requests: draft.requests, per: draft.per.trim() || "1s" }),
    },
    lists: listsOf(draft.lists),
    check: checkOf(draft),
  };
}

/** The difference to the system as it was when the form opened: changes by others are kept. */
export function changesOf(draft: SystemDraft, opened: System) {
  const content = (of: SystemDraft) => ({ ...systemOf(of, opened), graphqlPath: of.graphqlPath.trim() });
  return changedValues(content(draftOfSystem(opened)), content(draft));
}

function inputOf({ stored, ...row }: InputRow): Input {
  const { pattern, required } = stored ?? {};
  const hosts = row.hosts.split(/\s+/).filter(Boolean);
  const texts = { label: row.label, description: row.description, example: row.example, suffix: row.suffix };
  return {
    name: row.name.trim(),
    ...Object.fromEntries(
      Object.entries(texts).flatMap(([name, text]) => (text.trim() ? [[name, text.trim()]] : [])),
    ),
    ...(hosts.length > 0 ? { hosts } : {}),
    ...(pattern ? { pattern } : {}),
    ...(required === undefined || required === null ? {} : { required }),
  };
}

function checkOf(draft: SystemDraft): Schemas["ConnectionCheck"] {
  if (!draft.checkPath.trim()) return {};
  const statuses = draft.checkStatuses
    .split(/[\s,]+/)
    .filter(Boolean)
    .map(Number);
  if (statuses.some((each) => !Number.isInteger(each)))
    throw new Error("Accepted statuses are numbers, such as 200.");
  const contains = draft.checkContains.trim();
  return {
    method: draft.checkMethod as "GET",
    path: draft.checkPath.trim(),
    ...(draft.checkMethod === "POST" ? { body: draft.checkBody.trim() } : {}),
    ...(statuses.length > 0 || contains
      ? { expect: { ...(statuses.length > 0 ? { statuses } : {}), ...(contains ? { contains } : {}) } }
      : {}),
  };
}

function listsOf(text: string): Lists {
  if (!text.trim()) return {};
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null && !Array.isArray(found)) return found as Lists;
  } catch {
    // Reported below.
  }
  throw new Error("The pagination of lists must be a JSON object.");
}

/** The host of a URL, without parts in curly braces: the domain where none is entered. */
export function hostOf(url: string): string {
  const host =
    url
      .trim()
      .replace(/^https?:\/\//i, "")
      .split(/[/?#:]/, 1)[0] ?? "";
  return host.replace(/^\{[^}]*\}\.?/, "");
}
