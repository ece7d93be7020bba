/** What pods have reported of requests that a system refused, in words. */
export function refusal(refused: { count: number; status: number }): string {
  const often = refused.count === 1 ? "a request" : `at least ${refused.count} requests`;
  return `It answered ${often} with ${refused.status}. Runs that use the connection fail.`;
}
