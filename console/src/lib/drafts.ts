import type { TextFile } from "./diff";

/** Text that is not saved yet, and the files that it was made of. */
export interface Draft {
  base: TextFile[];
  files: TextFile[];
  message: string;
}

const PREFIX = "tieline.draft";

/** The place of a draft: another user of the same tab has another one. */
export function draftKey(user: string, project: string): string {
  return `${PREFIX}:${encodeURIComponent(user)}:${project}`;
}

/** The draft that this tab keeps. What is no draft is removed. */
export function readDraft(storage: Storage, key: string): Draft | undefined {
  try {
    const text = storage.getItem(key);
    if (!text) return undefined;
    const found: unknown = JSON.parse(text);
    if (isDraft(found)) return found;
    storage.removeItem(key);
  } catch {
    // Storage that is closed, or holds something else, has no draft.
  }
  return undefined;
}

/** Keeps a draft; undefined removes it. Whether that was done: a tab keeps some megabytes. */
export function writeDraft(storage: Storage, key: string, draft: Draft | undefined): boolean {
  try {
    if (draft) storage.setItem(key, JSON.stringify(draft));
    else storage.removeItem(key);
    return true;
  } catch {
    return false;
  }
}

function isDraft(found: unknown): found is Draft {
  if (typeof found !== "object" || found === null) return false;
  const { base, files, message } = found as Partial<Draft>;
  return areFiles(base) && areFiles(files) && typeof message === "string";
}

function areFiles(found: unknown): found is TextFile[] {
  return (
    Array.isArray(found) &&
    found.every((each) => typeof each?.filename === "string" && typeof each?.content === "string")
  );
}
