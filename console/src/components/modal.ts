import { type RefObject, useLayoutEffect } from "react";

/** Shows a dialog; when it goes, the focus goes back to what opened it, or to the page where that is gone. */
export function useModal(element: RefObject<HTMLDialogElement | null>): void {
  useLayoutEffect(() => {
    const dialog = element.current;
    const opener = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (opener instanceof HTMLElement && opener.isConnected && opener !== document.body) opener.focus();
      else document.getElementById("content")?.focus();
    };
  }, [element]);
}
