import type { TextFile } from "./diff";

/** A name that can be completed. */
export interface Name {
  name: string;
  kind: string;
  signature?: string;
  type?: string;
  doc?: string;
}

/** The public names of the SDK (`sdk.json`, which `python -m deploy.sdk_completions` writes). */
export interface Sdk {
  names: Name[];
  members: Record<string, Name[]>;
}

export interface Completions {
  /** Where the text begins that a completion replaces. */
  from: number;
  options: Name[];
}

/** What else a project's code may name. */
export interface Known {
  /** Operations by the name of their connector in code. */
  connectors: Record<string, Name[]>;
  /** Connection templates of the environment, and the connectors' names. */
  connections: string[];
}

const MOST_BEFORE = 2_000;
const IMPORT = /^\s*from\s+tieline\s+import\s+(?:\(?\s*(?:\w+\s*,\s*)*)(\w*)$/;
const MEMBER = /\b([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)*)\.(\w*)$/;
const OPERATION = /\b(?:call|call_pages)\(\s*(["'])([\w-]+)\1\s*,\s*["']([\w./-]*)$/;
const CONNECTION =
  /\b(?:fetch|call|call_pages|paginate|graphql|session|connection|credentials)\(\s*["']([\w.-]*)$|\bconnection=["']([\w.-]*)$/;
const IN_TEXT = /^(?:[^"'#]|"[^"]*"|'[^']*')*(?:["'#])[^"']*$/;

/** What can stand at the end of `before`, a text whose last line is the one that is written. */
export function completionsAt(before: string, source: string, sdk: Sdk, known: Known): Completions | undefined {
  const near = before.slice(-MOST_BEFORE);
  const at = (typed: string) => before.length - typed.length;
  const operation = OPERATION.exec(near);
  if (operation) {
    const [, , connector = "", typed = ""] = operation;
    return some(at(typed), known.connectors[connector]);
  }
  const connection = CONNECTION.exec(near);
  if (connection) {
    const typed = connection[1] ?? connection[2] ?? "";
    return some(
      at(typed),
      known.connections.map((name) => ({ name, kind: "constant" })),
    );
  }
  const line = near.slice(near.lastIndexOf("\n") + 1);
  const imported = IMPORT.exec(line);
  if (imported) return some(at(imported[1] ?? ""), sdk.names);
  if (IN_TEXT.test(line)) return undefined;
  const member = MEMBER.exec(line);
  if (member) {
    const [, name = "", path = "", typed = ""] = member;
    let type = typeOf(name, source, sdk);
    for (const part of path.split(".").filter(Boolean))
      type = membersOf(sdk, type)?.find((each) => each.name === part)?.type;
    return some(at(typed), membersOf(sdk, type));
  }
  const word = /(?:^|[^\w.])([A-Z]\w*)$/.exec(line);
  return word ? some(at(word[1] ?? ""), sdk.names) : undefined;
}

function membersOf(sdk: Sdk, type: string | undefined): Name[] | undefined {
  return type !== undefined && Object.hasOwn(sdk.members, type) ? sdk.members[type] : undefined;
}

function some(from: number, options: Name[] | undefined): Completions | undefined {
  return options && options.length > 0 ? { from, options } : undefined;
}

/** The class of a variable, as a parameter's annotation or a first assignment tells it. */
function typeOf(name: string, source: string, sdk: Sdk): string | undefined {
  if (membersOf(sdk, name)) return name;
  const hints = new RegExp(`\\b${name}\\s*(?::\\s*(\\w+)|=\\s*(\\w+)\\()`, "g");
  let found: string | undefined;
  for (const [, annotated, made] of source.matchAll(hints)) {
    const type = annotated ?? made ?? "";
    if (membersOf(sdk, type)) found = type;
  }
  return found;
}

const MOST_OPERATIONS = 2_000;
const MOST_SIGNATURE = 200;

/** The operations of the descriptions that `tieline connectors add` puts beside the code. */
export function operationsOf(files: TextFile[]): Record<string, Name[]> {
  const found: Record<string, Name[]> = Object.create(null);
  for (const each of files) {
    const name = /^connectors\/(\w+)\.json$/.exec(each.filename)?.[1];
    if (name) found[name] = operationsIn(each.content);
  }
  return found;
}

interface Written {
  method?: unknown;
  path?: unknown;
  summary?: unknown;
  /** Of GraphQL. */
  document?: unknown;
}

/** Method and path, or how a document of GraphQL begins: `query orders($first: Int)`. */
function signatureOf(operation: Written | null): string {
  const document = operation?.document;
  if (typeof document === "string") return document.slice(0, MOST_SIGNATURE).split("{", 1)[0]?.trim() ?? "";
  return `${String(operation?.method ?? "")} ${String(operation?.path ?? "")}`;
}

function operationsIn(content: string): Name[] {
  try {
    const operations: Record<string, Written> = JSON.parse(content).operations ?? {};
    return Object.entries(operations)
      .slice(0, MOST_OPERATIONS)
      .map(([name, each]) => ({
        name,
        kind: "method",
        signature: ` ${signatureOf(each)}`,
        doc: typeof each?.summary === "string" ? each.summary : undefined,
      }));
  } catch {
    return [];
  }
}
