import type { Connection } from "../api/connections";
import type { Issue } from "../api/issues";
import type { ProjectItem } from "../api/projects";
import type { Run } from "../api/runs";
import type { LateSchedule } from "../api/schedules";
import type { Tone } from "../components/basics";
import { refusal, SOON_MS } from "./connections";
import { capped, counted, whatFailed } from "./issues";
import { path } from "./links";

/** Something that is broken, or will be soon. */
export interface Problem {
  key: string;
  tone: Tone;
  title: string;
  detail: string;
  since?: string;
  /** Where to look, below the organisation. */
  href: string;
  /** Greater is worse. */
  weight: number;
}

/** What there is to look at. */
export interface Found {
  projects: ProjectItem[];
  /** Issues that are open or regressed: dead letters are among their runs. */
  issues: Issue[];
  /** Runs that wait: for another attempt, or for a time. */
  waiting: Run[];
  connections: Connection[];
  late: LateSchedule[];
}

/** What is broken, each once and the worst first: environments, connections that are refused, issues, late schedules,
 * runs that are being retried, what expires soon. */
export function problems({ projects, issues, waiting, connections, late }: Found, now: number): Problem[] {
  return [
    ...ofEnvironments(projects),
    ...ofIssues(issues, projects, now),
    ...ofRetries(waiting, issues, projects),
    ...ofConnections(connections, now),
    ...ofSchedules(late),
  ].sort((one, other) => other.weight - one.weight || one.title.localeCompare(other.title));
}

function ofEnvironments(projects: ProjectItem[]): Problem[] {
  return projects.flatMap((project) =>
    project.environments
      .filter((each) => each.status === "error" || each.rollout?.state === "failed")
      .map((each) => ({
        key: each.id,
        tone: "bad" as const,
        title: `${project.name} · ${each.name} ${each.status === "error" ? "is in error" : "did not roll out"}`,
        detail: each.rollout?.message ?? each.message ?? each.rollout?.reason ?? "",
        since: each.lastDeployedAt || undefined,
        href: path("projects", project.id),
        weight: each.status === "error" ? 100 : 90,
      })),
  );
}

const LATELY_MS = 3600 * 1000;

function ofIssues(issues: Issue[], projects: ProjectItem[], now: number): Problem[] {
  return issues.map((each) => {
    const place = environmentOf(projects, each.environmentId);
    const where = place ? `${place.project.name} · ${place.environment.name}` : "a deleted environment";
    const isLately = now - Date.parse(each.lastSeen) < LATELY_MS;
    const since = each.regressedIn ?? each.firstVersion;
    const hit = [
      counted(each.count, "run"),
      ...(each.users ? [counted(each.users, "user", capped(each.users))] : []),
      ...(since ? [`since ${since.name}`] : []),
    ].join(", ");
    return {
      key: `issue/${each.id}`,
      tone: isLately || each.state === "regressed" ? ("bad" as const) : ("warn" as const),
      title: `${each.task}: ${whatFailed(each)}${each.state === "regressed" ? " again" : ""}`,
      detail: `${where}: ${hit}: ${each.message || "no error reported"}`,
      since: each.lastSeen,
      href: each.projectId ? path("projects", each.projectId, "issues", each.id) : "/issues",
      weight: (isLately ? 70 : 50) + (each.state === "regressed" ? 5 : 0) + Math.min(Math.log10(each.count), 4),
    };
  });
}

/** Runs that failed and are being retried: an issue counts them only after the last attempt. They are left out where an
 * issue of their task is shown. */
function ofRetries(waiting: Run[], issues: Issue[], projects: ProjectItem[]): Problem[] {
  const known = new Set(issues.map(taskOf));
  const groups = new Map<string, [Run, ...Run[]]>();
  for (const run of waiting) {
    const key = taskOf(run);
    if (!run.error || known.has(key)) continue;
    const group = groups.get(key);
    if (group) group.push(run);
    else groups.set(key, [run]);
  }
  return [...groups].map(([key, runs]) => {
    const [first] = runs;
    const place = environmentOf(projects, first.environmentId);
    const where = place ? `${place.project.name} · ${place.environment.name}` : "a deleted environment";
    const filters = new URLSearchParams({ status: "waiting", task: first.task });
    if (place) {
      filters.set("project", place.project.id);
      filters.set("environment", place.environment.name);
    }
    return {
      key: `waiting/${key}`,
      tone: "warn" as const,
      title: `${counted(runs.length, "run")} of ${first.task} failed and ${runs.length === 1 ? "is" : "are"} being retried`,
      detail: `${where}: ${first.error?.message ?? "no error was reported"}`,
      since: first.endedAt ?? first.queuedAt,
      href: `/runs?${filters}`,
      weight: 55 + Math.min(runs.length / 100, 2),
    };
  });
}

function taskOf({ environmentId, kind, task }: { environmentId: string; kind: string; task: string }): string {
  return `${environmentId}/${kind}/${task}`;
}

function ofConnections(connections: Connection[], now: number): Problem[] {
  return connections.flatMap((connection): Problem[] => {
    const credentials = connection.credentials
      .map((each) => each.credential)
      .filter((each) => each !== null && each !== undefined);
    const errors = credentials.flatMap((each) => each.errors ?? []);
    const base = { key: connection.id, href: path("connections", connection.id) };
    if (errors.length > 0) {
      return [
        {
          ...base,
          tone: "bad" as const,
          title: `Connection ${connection.name} cannot be used`,
          detail: errors.join("; "),
          weight: 80,
        },
      ];
    }
    if (connection.refused) {
      return [
        {
          ...base,
          tone: "bad" as const,
          title: `${connection.name}: its system refuses the credentials`,
          detail: refusal(connection.refused),
          since: connection.refused.since,
          weight: 85,
        },
      ];
    }
    const [first] = connection.expires;
    if (!first || Date.parse(first.at) - now >= SOON_MS) return [];
    const expiry = first.at;
    const title = `Connection ${connection.name} ${Date.parse(expiry) < now ? "has expired" : "expires soon"}`;
    return [
      {
        ...base,
        tone: "warn" as const,
        title,
        detail: `Its ${first.what} expires and is not renewed automatically.`,
        since: expiry,
        weight: 40,
      },
    ];
  });
}

function ofSchedules(late: LateSchedule[]): Problem[] {
  return late.map((each) => ({
    key: each.id,
    tone: "warn" as const,
    title: `Schedule ${each.name} did not run`,
    detail: `${each.projectName} · ${each.environmentName}`,
    since: each.missed,
    href: `/schedules?${new URLSearchParams({ project: each.projectId, environment: each.environmentName })}`,
    weight: 60,
  }));
}

/** The project and the environment with this id. */
export function environmentOf(projects: ProjectItem[], id: string) {
  for (const project of projects) {
    const environment = project.environments.find((each) => each.id === id);
    if (environment) return { project, environment };
  }
  return undefined;
}
