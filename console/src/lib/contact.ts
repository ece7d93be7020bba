import { useSyncExternalStore } from "react";

/** What is known of the way to the API. */
export interface Contact {
  isOffline: boolean;
  /** When the API last answered, in milliseconds since 1970. */
  lastAnswer?: number;
}

let contact: Contact = { isOffline: false };
const listeners = new Set<() => void>();

/** Notes that a request was answered, or could not be. */
export function noteContact(answered: boolean): void {
  const before = contact;
  contact = answered ? { isOffline: false, lastAnswer: Date.now() } : { ...contact, isOffline: true };
  if (before.isOffline !== contact.isOffline) for (const each of listeners) each();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener("offline", listener);
  window.addEventListener("online", listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("offline", listener);
    window.removeEventListener("online", listener);
  };
}

export function isOffline(): boolean {
  return contact.isOffline || !navigator.onLine;
}

export function lastAnswer(): number | undefined {
  return contact.lastAnswer;
}

export function useOffline(): boolean {
  return useSyncExternalStore(subscribe, isOffline);
}
