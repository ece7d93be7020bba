/** The console's entry script in a page's markup: its name changes with each build. */
export function entryOf(html: string): string | undefined {
  return /<script[^>]*\ssrc="([^"]*assets\/[^"]+\.js)"/.exec(html)?.[1];
}

const OWN = typeof document === "undefined" ? undefined : entryOf(document.documentElement.outerHTML);

/** Whether the API serves another build than this page is of. Throws where it does not answer. */
export async function isOutdated(): Promise<boolean> {
  const response = await fetch("/console/", { cache: "no-store", signal: AbortSignal.timeout(10_000) });
  const served = response.ok ? entryOf(await response.text()) : undefined;
  return OWN !== undefined && served !== undefined && served !== OWN;
}
