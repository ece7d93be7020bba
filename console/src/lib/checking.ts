import { ApiError } from "../api/client";
import type { Finding } from "../api/projects";
import type { TextFile } from "./diff";

/** What is known of the files that are checked. */
export type CheckState =
  | { type: "waiting" | "checking" | "offline"; findings: Finding[] }
  | { type: "done"; findings: Finding[] }
  | { type: "failed"; findings: Finding[]; error: unknown };

const QUIET_MS = 700;
const AGAIN_MS = 5_000;

/**
 * Checks files a moment after the last change. Of several checks only the last one counts; one that did not reach the API,
 * or was refused because many wait, is tried again.
 */
export class Checker {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private running: AbortController | undefined;
  private findings: Finding[] = [];

  constructor(
    private readonly check: (files: TextFile[], signal: AbortSignal) => Promise<Finding[]>,
    private readonly notify: (state: CheckState) => void,
  ) {}

  /** Has these files checked in a moment, instead of all before them. */
  soon(files: TextFile[], after = QUIET_MS): void {
    this.stop();
    this.notify({ type: "waiting", findings: this.findings });
    this.timer = setTimeout(() => void this.run(files), after);
  }

  /** Ends the check that waits or runs. */
  stop(): void {
    clearTimeout(this.timer);
    this.running?.abort();
    this.running = undefined;
  }

  private async run(files: TextFile[]): Promise<void> {
    const own = new AbortController();
    this.running = own;
    this.notify({ type: "checking", findings: this.findings });
    try {
      const found = await this.check(files, own.signal);
      if (this.running !== own) return;
      this.findings = found;
      this.notify({ type: "done", findings: found });
    } catch (error) {
      if (this.running !== own) return;
      const status = error instanceof ApiError ? error.status : -1;
      const passes = status === 0 || status === 429 || status >= 500;
      this.notify(
        status === 0
          ? { type: "offline", findings: this.findings }
          : { type: "failed", findings: this.findings, error },
      );
      if (passes) this.timer = setTimeout(() => void this.run(files), AGAIN_MS);
    }
  }
}
