import { markOf } from "../lib/catalogue";

/** A provider's mark: its letters on a colour. */
export function Mark({ of: key, name }: { of: string; name: string }) {
  const { letters, colour } = markOf(key, name);
  return (
    <span className={`mark mark-${colour}`} aria-hidden="true">
      {letters}
    </span>
  );
}
