import { useGet } from "./queries";

/** No stream says what is used. */
const UNWATCHED_MS = 30_000;

export function useQuotas() {
  return useGet("/quotas", { refetchInterval: UNWATCHED_MS });
}
