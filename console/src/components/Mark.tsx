import { useMemo } from "react";
import { type System, useSystems } from "../api/systems";
import { markKeyOf, markOf } from "../lib/catalogue";
import { visible } from "../lib/text";

/** A provider's mark: its letters on a colour. */
export function Mark({ of: key, name, small }: { of: string; name: string; small?: boolean }) {
  const { letters, colour } = markOf(key, visible(name));
  return (
    <span className={`mark mark-${colour}${small ? " mark-small" : ""}`} aria-hidden="true">
      {letters}
    </span>
  );
}

export function SystemMark({ system, small }: { system: Pick<System, "name" | "labels">; small?: boolean }) {
  return <Mark of={markKeyOf(system)} name={system.name} small={small} />;
}

/** The systems of the organisation by their names, as issues name them. */
export function useSystemsByName(): Map<string, System> {
  const { data } = useSystems("");
  return useMemo(() => new Map(data?.pages.flatMap((each) => each.items).map((each) => [each.name, each])), [data]);
}
