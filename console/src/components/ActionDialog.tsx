import { type ReactNode, useId } from "react";
import { Failure } from "./basics";
import { Dialog } from "./Dialog";

/** A dialog that asks, acts when its form is submitted, and shows why that failed. */
export function ActionDialog({
  title,
  verb,
  working = verb,
  danger,
  wide,
  action,
  disabled,
  also,
  onSubmit,
  onClose,
  children,
}: {
  title: string;
  /** What the button says. */
  verb: string;
  /** What it says while the action is under way. */
  working?: string;
  danger?: boolean;
  wide?: boolean;
  /** A mutation. */
  action: { isPending: boolean; error?: unknown };
  /** Whether something is missing. */
  disabled?: boolean;
  /** Another button that acts. */
  also?: { verb: string; disabled?: boolean; onClick: () => void };
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}) {
  const form = useId();
  return (
    <Dialog
      title={title}
      wide={wide}
      onClose={onClose}
      foot={
        <>
          <button type="button" className="button" onClick={onClose}>
            Close
          </button>
          {also && (
            <button
              type="button"
              className="button"
              disabled={also.disabled || action.isPending}
              onClick={also.onClick}
            >
              {also.verb}
            </button>
          )}
          <button
            type="submit"
            form={form}
            className={danger ? "button danger" : "button primary"}
            disabled={disabled || action.isPending}
          >
            {action.isPending ? working : verb}
          </button>
        </>
      }
    >
      <form
        id={form}
        className="stack-s"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        {children}
      </form>
      <Failure error={action.error} />
    </Dialog>
  );
}
