import type { Connection } from "../api/connections";
import type { ProjectItem } from "../api/projects";
import type { Run } from "../api/runs";
import type { LateSchedule } from "../api/schedules";
import type { Tone } from "../components/basics";
import { path } from "./links";
import { refusal } from "./refusals";

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

const SOON_MS = 7 * 24 * 3600 * 1000;

/** What there is to look at. */
export interface Found {
  projects: ProjectItem[];
  dead: Run[];
  connections: Connection[];
  late: LateSchedule[];
}

/** What is broken, the worst first: environments, connections that are refused, dead letters, late schedules, what
 * expires soon. */
export function problems({ projects, dead, connections, late }: Found, now: number): Problem[] {
  return [
    ...ofEnvironments(projects),
    ...ofRuns(dead, projects),
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
        detail: each.rollout?.reason ?? each.message ?? "",
        since: each.lastDeployedAt || undefined,
        href: path("projects", project.id),
        weight: each.status === "error" ? 100 : 90,
      })),
  );
}

function ofRuns(dead: Run[], projects: ProjectItem[]): Problem[] {
  const groups = new Map<string, Run[]>();
  for (const run of dead) {
    const key = `${run.environmentId}/${run.task}`;
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  return [...groups].map(([key, runs]) => {
    const first = runs[0] as Run;
    const place = environmentOf(projects, first.environmentId);
    const where = place ? `${place.project.name} · ${place.environment.name}` : "an environment that is gone";
    const filters = new URLSearchParams({ status: "dead", task: first.task });
    if (place) {
      filters.set("project", place.project.id);
      filters.set("environment", place.environment.name);
    }
    return {
      key,
      tone: "bad" as const,
      title: `${runs.length} dead letter${runs.length === 1 ? "" : "s"} of ${first.task}`,
      detail: `${where}: ${first.error?.message ?? "no error was reported"}`,
      since: first.endedAt ?? first.queuedAt,
      href: `/runs?${filters}`,
      weight: 70 + Math.min(runs.length, 9),
    };
  });
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
    const expiry = credentials
      .map((each) => each.expiresAt)
      .filter((each): each is string => Boolean(each) && Date.parse(each as string) - now < SOON_MS)
      .sort()[0];
    if (expiry === undefined) return [];
    const title = `Connection ${connection.name} ${Date.parse(expiry) < now ? "has expired" : "expires soon"}`;
    return [
      {
        ...base,
        tone: "warn" as const,
        title,
        detail: "Its credential is deleted then.",
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
