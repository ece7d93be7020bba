export interface DiffLine {
  kind: "same" | "added" | "removed";
  text: string;
}

export interface FileDiff {
  filename: string;
  change: "added" | "removed" | "changed";
  lines: DiffLine[];
}

export interface TextFile {
  filename: string;
  content: string;
}

const MOST_CELLS = 4_000_000;
const CONTEXT = 3;

/** The files that differ, in the order of their names. */
export function diffFiles(before: TextFile[], after: TextFile[]): FileDiff[] {
  const old = new Map(before.map((each) => [each.filename, each.content]));
  const young = new Map(after.map((each) => [each.filename, each.content]));
  return [...new Set([...old.keys(), ...young.keys()])]
    .sort()
    .filter((name) => old.get(name) !== young.get(name))
    .map((filename) => {
      const was = old.get(filename);
      const is = young.get(filename);
      const change = was === undefined ? "added" : is === undefined ? "removed" : "changed";
      return { filename, change, lines: diffLines(linesOf(was), linesOf(is)) };
    });
}

function linesOf(text: string | undefined): string[] {
  return text ? text.replace(/\n$/, "").split("\n") : [];
}

/** The lines of both, by their longest common subsequence; of very long changes, all removed and then all added. */
export function diffLines(before: string[], after: string[]): DiffLine[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end))
    end++;
  const same = (text: string): DiffLine => ({ kind: "same", text });
  return [
    ...before.slice(0, start).map(same),
    ...middle(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...before.slice(before.length - end).map(same),
  ];
}

function middle(before: string[], after: string[]): DiffLine[] {
  const removed = before.map((text): DiffLine => ({ kind: "removed", text }));
  const added = after.map((text): DiffLine => ({ kind: "added", text }));
  if (before.length * after.length > MOST_CELLS || before.length === 0 || after.length === 0)
    return [...removed, ...added];
  const width = after.length + 1;
  const common = new Uint32Array((before.length + 1) * width);
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      common[i * width + j] =
        before[i] === after[j]
          ? (common[(i + 1) * width + j + 1] ?? 0) + 1
          : Math.max(common[(i + 1) * width + j] ?? 0, common[i * width + j + 1] ?? 0);
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < before.length && j < after.length) {
    if (before[i] === after[j]) {
      lines.push({ kind: "same", text: before[i] as string });
      i++;
      j++;
    } else if ((common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0))
      lines.push(removed[i++] as DiffLine);
    else lines.push(added[j++] as DiffLine);
  }
  return [...lines, ...removed.slice(i), ...added.slice(j)];
}

/** The changed lines with three around them; `null` stands for what is left out. */
export function excerpt(lines: DiffLine[]): (DiffLine | null)[] {
  const near = new Set<number>();
  lines.forEach((line, at) => {
    if (line.kind !== "same") for (let each = at - CONTEXT; each <= at + CONTEXT; each++) near.add(each);
  });
  const result: (DiffLine | null)[] = [];
  lines.forEach((line, at) => {
    if (near.has(at)) result.push(line);
    else if (result.at(-1) !== null) result.push(null);
  });
  return result;
}

/** The lines of a unified diff; undefined stands for what is left out between them. */
export function patchLines(diff: string): (DiffLine | undefined)[] {
  const lines = diff.replace(/\n$/, "").split("\n");
  const first = lines.findIndex((each) => each.startsWith("@@"));
  const kinds: Record<string, DiffLine["kind"]> = { "+": "added", "-": "removed", " ": "same" };
  if (first < 0) return [];
  return lines
    .slice(first + 1)
    .filter((each) => !each.startsWith("\\"))
    .map((each): DiffLine | undefined => {
      const kind = kinds[each[0] ?? " "];
      return kind && { kind, text: each.slice(1) };
    });
}
