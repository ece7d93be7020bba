import type { Schemas } from "../api/client";
import type { Tone } from "../components/basics";
import { shortName, visible } from "./text";

type Release = Schemas["Release"];

const TONES: Record<Release["outcome"], Tone> = {
  progressing: "info",
  serving: "good",
  healthy: "good",
  failed: "bad",
  crashed: "bad",
  suspended: "warn",
  replaced: "idle",
  rolled_back: "warn",
};

export function toneOfRelease(outcome: Release["outcome"]): Tone {
  return TONES[outcome];
}

export function wordsOf(outcome: Release["outcome"]): string {
  return outcome.replace("_", " ");
}

/** Who or what deployed it. */
export function deployerOf(release: Pick<Release, "by" | "via">): string {
  if (release.by) return visible(shortName(release.by));
  return visible(release.via) || "kubectl";
}

/** The release whose code ran: the newest of the version that was deployed when the run was queued, or else of the
 * version. */
export function releaseOf(releases: Release[], run: Pick<Schemas["Run"], "version" | "queuedAt">) {
  const version = run.version;
  if (!version) return undefined;
  const same = releases.filter((each) =>
    version.id ? each.version.id === version.id : each.version.name === version.name,
  );
  return same.find((each) => Date.parse(each.deployedAt) <= Date.parse(run.queuedAt)) ?? same.at(-1);
}

/** Failed runs of a release, in words; nothing where that is not known, and where there are no runs. */
export function failedRuns(release: Pick<Release, "runs" | "failedRuns">): string {
  if (!release.runs || release.failedRuns === null || release.failedRuns === undefined) return "";
  return `${release.failedRuns.toLocaleString()} of ${release.runs.toLocaleString()} runs failed`;
}

/** The first line of a message, and the lines after it, such as a traceback. */
export function headline(message: string): [string, string] {
  const [first = "", ...rest] = message.split("\n");
  return [first, rest.join("\n").trim()];
}
