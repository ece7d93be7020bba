import type { Finding } from "../api/projects";
import type { TextFile } from "./diff";

/** What the platform takes (docs/limits.md); it decides, this only says so before. */
export const MOST_FILES = 1024;
const MOST_PATH = 512;
const MOST_PART_BYTES = 255;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const CONTROL = /[\x00-\x1f\x7f]/;

/** Why a path cannot be a new file's; undefined where it can. */
export function nameProblem(path: string, files: TextFile[]): string | undefined {
  if (!path) return "Enter a path, such as main.py or shop/orders.py.";
  if (path.length > MOST_PATH) return `A path has at most ${MOST_PATH} characters.`;
  if (path.startsWith("/") || /^[A-Za-z]:/.test(path))
    return "A path is relative to the project, such as shop/orders.py.";
  if (path.includes("\\")) return "Separate folders by /.";
  if (CONTROL.test(path)) return "A path has printable characters only.";
  const parts = path.split("/");
  if (path.startsWith("..") || parts.some((each) => each === "" || each === "." || each === ".."))
    return 'A path has no empty parts, and no "." or "..".';
  if (parts.some((each) => new TextEncoder().encode(each).length > MOST_PART_BYTES))
    return `A part of a path has at most ${MOST_PART_BYTES} bytes.`;
  if (files.some((each) => each.filename === path)) return "There is a file with this path.";
  const taken = files.some((each) => each.filename.startsWith(`${path}/`) || path.startsWith(`${each.filename}/`));
  if (taken) return "A path is either a file's or a folder's.";
  if (files.length >= MOST_FILES) return `A project has at most ${MOST_FILES} files.`;
  return undefined;
}

/** Why a file cannot have another path; undefined where it can. */
export function renameProblem(path: string, filename: string, files: TextFile[]): string | undefined {
  if (path === filename) return "Enter another path. Write folders before the name, such as shop/orders.py.";
  return nameProblem(
    path,
    files.filter((each) => each.filename !== filename),
  );
}

/** A file under another path, with the same content. */
export function renamed(files: TextFile[], filename: string, path: string): TextFile[] {
  return sorted(files.map((each) => (each.filename === filename ? { ...each, filename: path } : each)));
}

const IMPORT = /^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]*))/gm;
const NAMES = /[\w.]+(?=[ \t]+as\b|[ \t\n]*(?:,|\)|$))/g;

/** The files that import a module by its path: they need a change when it gets another one. */
export function importersOf(filename: string, files: TextFile[]): string[] {
  if (!filename.endsWith(".py")) return [];
  const wanted = moduleOf(filename);
  return files
    .filter((each) => each.filename.endsWith(".py") && each.filename !== filename)
    .filter((each) => importedBy(each).some((name) => name === wanted || name.startsWith(`${wanted}.`)))
    .map((each) => each.filename);
}

function moduleOf(filename: string): string {
  return filename
    .replace(/\.py$/, "")
    .replace(/(^|\/)__init__$/, "")
    .replaceAll("/", ".");
}

/** The modules that a file names in imports, and what it imports from them: that can be modules, too. */
function importedBy({ filename, content }: TextFile): string[] {
  return [...content.matchAll(IMPORT)].flatMap(([, from, names, modules]) => {
    const found = (names ?? modules ?? "").match(NAMES) ?? [];
    if (from === undefined) return found;
    const module = absolute(from, filename);
    return [module, ...found.map((name) => (module ? `${module}.${name}` : name))];
  });
}

/** The module that a name means in a file: one dot is the folder of the file, each other one a folder above. */
function absolute(name: string, filename: string): string {
  const dots = /^\.*/.exec(name)?.[0].length ?? 0;
  if (dots === 0) return name;
  const folders = filename.split("/").slice(0, -1);
  const above = folders.slice(0, Math.max(folders.length - dots + 1, 0));
  return [...above, name.slice(dots)].filter(Boolean).join(".");
}

/** Whether a file has imports that mean another module when it is in another folder. */
export function hasRelativeImports(file: TextFile | undefined): boolean {
  return Boolean(file?.filename.endsWith(".py")) && /^[ \t]*from[ \t]+\./m.test(file?.content ?? "");
}

export function sorted(files: TextFile[]): TextFile[] {
  const rank = (each: TextFile) => (each.filename === "main.py" ? 0 : 1);
  return [...files].sort((one, other) => rank(one) - rank(other) || compare(one.filename, other.filename));
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Whether two lists have the same files, in any order. */
export function sameFiles(one: TextFile[], other: TextFile[]): boolean {
  if (one.length !== other.length) return false;
  const contents = contentsOf(other);
  return one.every((each) => contents.get(each.filename) === each.content);
}

function contentsOf(files: TextFile[]): Map<string, string> {
  return new Map(files.map((each) => [each.filename, each.content]));
}

/** A file that both sides have changed since they had the same; undefined is a file that a side has removed. */
export interface Conflict {
  filename: string;
  mine: string | undefined;
  theirs: string | undefined;
}

/** What becomes of two changes of the same files: those that only one side has changed are merged. */
export function merge(
  base: TextFile[],
  mine: TextFile[],
  theirs: TextFile[],
): { files: TextFile[]; conflicts: Conflict[] } {
  const [before, own, other] = [contentsOf(base), contentsOf(mine), contentsOf(theirs)];
  const files: TextFile[] = [];
  const conflicts: Conflict[] = [];
  for (const filename of new Set([...own.keys(), ...other.keys()])) {
    const [was, is, be] = [before.get(filename), own.get(filename), other.get(filename)];
    let content = is;
    if (is !== be) {
      if (is === was) content = be;
      else if (be !== was) conflicts.push({ filename, mine: is, theirs: be });
    }
    if (content !== undefined) files.push({ filename, content });
  }
  return { files: sorted(files), conflicts: conflicts.sort((a, b) => compare(a.filename, b.filename)) };
}

/** Files in which a conflict is decided. */
export function decided(files: TextFile[], { filename, mine, theirs }: Conflict, keepMine: boolean): TextFile[] {
  const content = keepMine ? mine : theirs;
  const others = files.filter((each) => each.filename !== filename);
  return sorted(content === undefined ? others : [...others, { filename, content }]);
}

const FIELD = /^files(?:\[(.*)\])?(?::(\d+))?$/s;

/** The findings of a deploy that was refused, from the fields of the error. */
export function findingsOf(fields: { field: string; message: string }[]): Finding[] {
  return fields.map(({ field, message }) => {
    const [, filename, line] = FIELD.exec(field) ?? [];
    return { filename, line: line ? Number(line) : undefined, severity: "error", message } as Finding;
  });
}

const PLACE = /([\w./-]{1,512}\.py)(?:", line |:)(\d{1,7})/g;

/** The place in one of the files that the message of a failed rollout names: the last one, where the code stopped. */
export function placeOf(message: string, files: TextFile[]): { filename: string; line: number } | undefined {
  let found: { filename: string; line: number } | undefined;
  for (const [, path = "", line] of message.slice(0, 10_000).matchAll(PLACE)) {
    const file = files
      .filter((each) => each.filename === path || path.endsWith(`/${each.filename}`))
      .sort((one, other) => other.filename.length - one.filename.length)[0];
    if (file) found = { filename: file.filename, line: Number(line) };
  }
  return found;
}

const NAMED =
  /\bctx\.(?:fetch|call|call_pages|paginate|graphql|session|connection|credentials)\(\s*["']([^"'\\\n]{1,80})["']|\bconnection=["']([^"'\\\n]{1,80})["']/g;

/** The connection templates that code names in plain text, in order. */
export function namedConnections(files: TextFile[]): string[] {
  const found = new Set<string>();
  for (const each of files) {
    if (!each.filename.endsWith(".py") || each.filename.startsWith("connectors/")) continue;
    for (const [, called, given] of each.content.matchAll(NAMED)) found.add((called ?? given) as string);
  }
  return [...found];
}

const WEBHOOK = /@\w+\.webhook\(\s*["']([\w./-]{1,200})["']([^)]*)\)/g;

/** The webhooks of the code, with the first of their methods. */
export function webhooksOf(files: TextFile[]): { path: string; method: string }[] {
  return files
    .filter((each) => each.filename.endsWith(".py"))
    .flatMap((each) => [...each.content.matchAll(WEBHOOK)])
    .map(([, name, options]) => ({
      path: `/${name}`,
      method: /methods=[[(]\s*["'](\w+)["']/.exec(options ?? "")?.[1]?.toUpperCase() ?? "POST",
    }));
}
