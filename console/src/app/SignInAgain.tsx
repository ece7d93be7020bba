import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useId, useRef, useState } from "react";
import { type Me, type Method, readMe, SESSION } from "../api/session";
import { useModal } from "../components/modal";
import { personWatch } from "../lib/person";
import { SignInWays } from "../pages/SignInPage";

const LOOK_MS = 2000;

/** Discards what one person has read and typed before another person signs in. */
function reload(): void {
  window.location.assign("/console/");
}

/** Whether the session has ended while the pages of `person` are open, and has not been renewed yet. */
export function useSigningInAgain(signedIn: boolean, person: Me | undefined): boolean {
  const client = useQueryClient();
  const [asks, setAsks] = useState(false);
  const id = person?.id;
  // Another person may sign in in another tab, which has the same cookie.
  const [watch] = useState(() => personWatch(reload));
  useEffect(() => watch(id), [watch, id]);
  useEffect(() => {
    if (!signedIn) {
      setAsks(id !== undefined);
      return;
    }
    if (!asks) return;
    let gone = false;
    readMe(client).then(
      (me) => {
        if (gone) return;
        if (me.id !== id) reload();
        else {
          setAsks(false);
          void client.invalidateQueries();
        }
      },
      () => !gone && void client.invalidateQueries({ queryKey: SESSION }),
    );
    return () => {
      gone = true;
    };
  }, [signedIn, id, asks, client]);
  return id !== undefined && (asks || !signedIn);
}

/** Asks to sign in again, in front of pages that keep their state. */
export function SignInAgain({ methods, person }: { methods: Method[]; person: Me }) {
  const client = useQueryClient();
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useModal(element);
  useEffect(() => {
    // Signing in at an issuer happens in another tab.
    const timer = setInterval(() => void client.invalidateQueries({ queryKey: SESSION }), LOOK_MS);
    return () => clearInterval(timer);
  }, [client]);
  return (
    <dialog ref={element} aria-labelledby={heading} onCancel={(event) => event.preventDefault()}>
      <div className="dialog-head" id={heading}>
        Your session has ended
      </div>
      <div className="dialog-body stack">
        <p>
          Sign in again as {person.name} to continue: unsaved input is kept. As another user, you start on an empty
          page.
        </p>
        <SignInWays methods={methods} elsewhere />
      </div>
    </dialog>
  );
}
