import { type ReactNode, useId, useRef } from "react";
import { useModal } from "./modal";

/** A modal dialog: the browser's own, which keeps the focus and closes by Escape. */
export function Dialog({
  title,
  onClose,
  children,
  foot,
  wide,
}: {
  title: string;
  onClose: () => void;
  children: ReactNode;
  foot?: ReactNode;
  wide?: boolean;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useModal(element);
  return (
    <dialog
      ref={element}
      className={wide ? "wide" : undefined}
      aria-labelledby={heading}
      onClose={onClose}
      onCancel={onClose}
    >
      <div className="dialog-head" id={heading}>
        {title}
      </div>
      <div className="dialog-body">{children}</div>
      {foot && <div className="dialog-foot">{foot}</div>}
    </dialog>
  );
}
