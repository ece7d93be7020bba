import { shell } from "./commands";

// As the command line splits words: digits belong to the letters before them.
const WORDS = /[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z][a-z0-9]*|[0-9]+[a-z]*/g;
const MOST = 60;
const KEYWORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from global " +
    "if import in is lambda nonlocal not or pass raise return try while with yield _ case match type"
  ).split(" "),
);

export interface Operation {
  connectorName: string;
  name: string;
  method: string;
  path: string;
  /** Whether it takes a body; by its method where that is not known. */
  body?: boolean;
}

/** The name that `tieline connectors add` gives to a connector in code: `Shop of the EU` becomes `shop_of_the_eu`. */
export function codeName(connector: string): string {
  const plain = connector
    .slice(0, 1000)
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .replace(/[^\0-\x7f]/gu, " ");
  const words = plain.match(WORDS) ?? [];
  const joined = words.map((each) => each.toLowerCase()).join("_");
  let name = joined.slice(0, MOST).replace(/^_+|_+$/g, "") || "connector";
  if (/^[0-9]/.test(name)) name = `n${name}`;
  return KEYWORDS.has(name) ? `${name}_` : name;
}

/** The call of an operation in code. */
export function callOf({ connectorName, name, method, path, body }: Operation): string {
  const parts = [...path.matchAll(/\{([^{}]+)\}/g)].map((each) => `${literal(each[1] ?? "")}: …`);
  const given = [literal(codeName(connectorName)), literal(name)];
  if (parts.length > 0) given.push(`path={${parts.join(", ")}}`);
  if (body ?? ["POST", "PUT", "PATCH"].includes(method.toUpperCase())) given.push("body={…}");
  return `await ctx.call(${given.join(", ")})`;
}

/** The command that writes the operation's description and types beside the code. */
export function addingOf({ connectorName, name }: Operation): string {
  const only = `--operations ${shell(name)}`;
  const connector = shell(connectorName);
  // What begins with a dash would be an option.
  return connectorName.startsWith("-")
    ? `tieline connectors add ${only} -- ${connector}`
    : `tieline connectors add ${connector} ${only}`;
}

/** A literal of Python: what others wrote cannot end it. */
function literal(text: string): string {
  const escaped = text.replace(/[\\"]|[^\x20-\x7e]/gu, (each) => {
    if (each === "\\" || each === '"') return `\\${each}`;
    const code = each.codePointAt(0) ?? 0;
    return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
  });
  return `"${escaped}"`;
}
