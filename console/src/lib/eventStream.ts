const LONGEST = 256 * 1024;

/**
 * Reads server-sent events from pieces of text, wherever those are cut. `onRetry` gets how long to wait before the next
 * connection, in milliseconds. Throws if an event is too long.
 */
export function eventReader(onEvent: (data: string) => void, onRetry: (ms: number) => void = () => {}) {
  let rest = "";
  let data: string[] = [];
  const readLine = (line: string) => {
    if (line === "") {
      if (data.length > 0) onEvent(data.join("\n"));
      data = [];
    } else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    else if (/^retry: ?\d{1,7}$/.test(line)) onRetry(Number(line.slice(6)));
  };
  return (piece: string) => {
    const lines = (rest + piece).split(/\r\n|\n/);
    rest = lines.pop() ?? "";
    if (rest.length > LONGEST) throw new RangeError("An event is too long");
    lines.forEach(readLine);
  };
}

const LONGEST_PAUSE_MS = 60_000;

/** How long to wait before the next attempt: longer after each failure, with jitter. */
export function pauseMs(failures: number, hint: number, random: () => number = Math.random): number {
  const pause = Math.min(hint * 2 ** Math.min(failures, 10), LONGEST_PAUSE_MS);
  return Math.round(pause * (0.5 + random()));
}
