/** What follows a change that was sent. */
export interface Following<T> {
  /** Called although the component that sent the change is gone: a live update may remove the row that it is about. */
  onSuccess?: (answered: T) => void;
  onError?: (error: Error) => void;
  /** Called after a success, unless the component is gone: what it closes could be another dialog by then. */
  close?: () => void;
}

/** Calls what follows a change. The promise never rejects. */
export async function settle<T>(
  sent: Promise<T>,
  isShown: () => boolean,
  { onSuccess, onError, close }: Following<T>,
): Promise<void> {
  let answered: T;
  try {
    answered = await sent;
  } catch (error) {
    onError?.(error as Error);
    return;
  }
  onSuccess?.(answered);
  if (isShown()) close?.();
}
