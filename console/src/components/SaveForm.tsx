import type { ReactNode } from "react";
import { useOrganisation } from "../app/organisation";
import { Failure } from "./basics";

/** A form that saves a part of a page, read-only without the role of an editor. */
export function SaveForm({
  verb,
  action,
  disabled,
  onSave,
  children,
}: {
  /** The text of the button. */
  verb: string;
  /** A mutation. */
  action: { isPending: boolean; error?: unknown };
  /** Whether there is nothing to save, or something is missing. */
  disabled: boolean;
  onSave: () => void;
  children: ReactNode;
}) {
  const { canEdit } = useOrganisation();
  return (
    <form
      className="stack-s"
      onSubmit={(event) => {
        event.preventDefault();
        onSave();
      }}
    >
      <fieldset className="stack-s" disabled={!canEdit} style={{ border: 0, margin: 0, padding: 0 }}>
        {children}
      </fieldset>
      <Failure error={action.error} />
      {canEdit && (
        <div className="row">
          <button type="submit" className="button small primary" disabled={disabled || action.isPending}>
            {verb}
          </button>
        </div>
      )}
    </form>
  );
}
