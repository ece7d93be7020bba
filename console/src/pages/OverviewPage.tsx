import { useMemo } from "react";
import { Link } from "wouter";
import { useConnections, useEndingCount } from "../api/connections";
import { useIssues } from "../api/issues";
import { type ProjectItem, type Summary, useProjects, useSummary } from "../api/projects";
import { FAILED, useRuns } from "../api/runs";
import { useLateSchedules } from "../api/schedules";
import { useOrganisation } from "../app/organisation";
import { Card, Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { RunsChart } from "../components/RunsChart";
import { EnvironmentBadge } from "../components/status";
import { type Problem, problems } from "../lib/attention";
import { exampleFor } from "../lib/commands";
import { SOON_DAYS, soon } from "../lib/connections";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { useNow } from "../lib/time";

const HOUR = 3_600_000;
const BUCKETS = 24;
const MOST_ISSUES = 100;
const MOST_WAITING = 200;

/** The last 24 whole hours and the one that runs. */
function useDay() {
  const now = useNow();
  const end = Math.ceil(now / HOUR) * HOUR;
  return useMemo(() => ({ start: iso(end - BUCKETS * HOUR), end: iso(end) }), [end]);
}

function iso(time: number): string {
  return new Date(time).toISOString();
}

export function OverviewPage() {
  const organisation = useOrganisation();
  const projects = useProjects();
  const day = useDay();
  const summary = useSummary(day.start, day.end, BUCKETS);
  const dead = useRuns({ status: "dead" }, { discarded: false, replayed: false, first: 1 });
  const waiting = useRuns({ status: "waiting" }, { first: MOST_WAITING });
  const issues = useIssues({}, { first: MOST_ISSUES });
  const connections = useConnections();
  const late = useLateSchedules();
  const now = useNow();
  const letters = dead.data?.pages[0];
  const open = issues.data?.pages[0];
  const retried = waiting.data?.pages[0];
  const found = useMemo(
    () =>
      problems(
        {
          projects: projects.data ?? [],
          issues: open?.items ?? [],
          waiting: retried?.items ?? [],
          connections: connections.data?.pages.flatMap((each) => each.items) ?? [],
          late: late.data?.items ?? [],
        },
        now,
      ),
    [projects.data, open, retried, connections.data, late.data, now],
  );
  if (projects.isPending) return <Loading what="the organisation" />;
  if (!projects.data) return <Failure error={projects.error} />;
  return (
    <>
      <PageHead title="Overview" sub={organisation.name || organisation.namespace} />
      {projects.data.length === 0 ? (
        <NoProjects namespace={organisation.namespace} />
      ) : (
        <>
          <Tiles
            projects={projects.data}
            summary={summary.data}
            dead={letters?.totalCount}
            day={day}
            base={`/${organisation.namespace}`}
          />
          <Attention
            found={found}
            failures={[dead.error, issues.error, waiting.error, connections.error, late.error, summary.error]}
            pending={
              dead.isPending ||
              issues.isPending ||
              waiting.isPending ||
              connections.isPending ||
              late.isPending ||
              summary.isPending
            }
            failed={summary.data?.totalErrors.current ?? 0}
            failedHref={failedOf(`/${organisation.namespace}`, day)}
            base={`/${organisation.namespace}`}
          />
          <Card title="Runs in the last 24 hours" aside={<Legend />}>
            <Failure error={summary.error} />
            {summary.data?.series && (
              <RunsChart
                series={summary.data.series}
                hrefOf={(bucket, end) =>
                  `/${organisation.namespace}/runs?${new URLSearchParams({ start: bucket.start, ...(end ? { end } : {}) })}`
                }
              />
            )}
          </Card>
          <Environments projects={projects.data} base={`/${organisation.namespace}`} />
        </>
      )}
    </>
  );
}

interface Day {
  start: string;
  end: string;
}

/** The runs that are counted as failed. */
function failedOf(base: string, day: Day): string {
  return `${base}/runs?${new URLSearchParams({ status: FAILED, ...day })}`;
}

function NoProjects({ namespace }: { namespace: string }) {
  const { canEdit } = useOrganisation();
  return (
    <div className="card">
      <Empty
        title="No project yet"
        action={
          canEdit && (
            <Link className="button primary" href={path(namespace, "new-project")}>
              New project
            </Link>
          )
        }
        commands={["tieline init orders", exampleFor(namespace)]}
      >
        A project is the code that connects systems. Begin with a template here, or with one of these commands.
      </Empty>
    </div>
  );
}

function Tiles({
  projects,
  summary,
  dead,
  day,
  base,
}: {
  projects: ProjectItem[];
  summary: Summary | undefined;
  dead: number | undefined;
  day: Day;
  base: string;
}) {
  const environments = projects.flatMap((each) => each.environments);
  const running = environments.filter((each) => each.status === "running").length;
  const current = summary?.totalErrors.current;
  return (
    <div className="tiles">
      <Tile
        name="Environments running"
        value={running}
        note={`of ${environments.length} in ${projects.length} projects`}
        href={`${base}/projects`}
      />
      <Tile
        name="Runs, 24 h"
        value={summary?.totalExecutions.current}
        note={summary && `${summary.totalExecutions.past.toLocaleString()} the day before`}
        href={`${base}/runs?${new URLSearchParams({ ...day })}`}
      />
      <Tile
        name="Failed, 24 h"
        value={current}
        note={summary && `${summary.totalErrors.past} the day before`}
        href={failedOf(base, day)}
      />
      <Tile name="Dead letters" value={dead} href={`${base}/dead-letters`} />
      <Expiring base={base} />
    </div>
  );
}

/** Connections of which a credential, a token or a certificate ends soon. */
function Expiring({ base }: { base: string }) {
  const count = useEndingCount(soon(useNow()));
  return (
    <Tile
      name="Expires soon"
      value={count.data}
      note={`connections, within ${SOON_DAYS} days`}
      href={`${base}/connections?${new URLSearchParams({ state: "expires soon" })}`}
    />
  );
}

function Tile({
  name,
  value,
  note,
  href,
}: {
  name: string;
  value: number | undefined;
  note?: string;
  href: string;
}) {
  return (
    <Link className="tile" href={href}>
      <div className="dim small">{name}</div>
      <div className="big">{value === undefined ? "–" : value.toLocaleString()}</div>
      {note && <div className="small dimmer">{note}</div>}
    </Link>
  );
}

function Attention({
  found,
  failures,
  pending,
  failed,
  failedHref,
  base,
}: {
  found: Problem[];
  failures: unknown[];
  pending: boolean;
  /** Runs that failed in the last day. */
  failed: number;
  failedHref: string;
  base: string;
}) {
  return (
    <Card title="Needs attention" flush aside={found.length > 0 && <span className="count">{found.length}</span>}>
      {failures.filter(Boolean).map((each) => (
        <Failure key={String(each)} error={each} />
      ))}
      {found.map((each) => (
        <Link key={each.key} className="problem" href={`${base}${each.href}`}>
          <span className={`dot ${each.tone}`} />
          <span className="grow">
            <strong>{visible(each.title)}</strong>
            <span className="dim cut" style={{ display: "block" }}>
              {visible(each.detail)}
            </span>
          </span>
          {each.since && (
            <span className="small dimmer">
              <Time value={each.since} />
            </span>
          )}
        </Link>
      ))}
      {found.length === 0 &&
        (pending ? (
          <Loading what="what is broken" />
        ) : (
          <Nothing failed={failed} href={failedHref} isKnown={!failures.some(Boolean)} />
        ))}
    </Card>
  );
}

function Nothing({ failed, href, isKnown }: { failed: number; href: string; isKnown: boolean }) {
  if (!isKnown) return null;
  if (failed > 0) {
    return (
      <Link className="problem" href={href}>
        <span className="dot warn" />
        Nothing is left to do. {failed.toLocaleString()} {failed === 1 ? "run" : "runs"} failed in the last 24
        hours.
      </Link>
    );
  }
  return (
    <div className="problem">
      <span className="dot good" />
      Nothing is broken.
    </div>
  );
}

function Legend() {
  return (
    <span className="legend">
      <span>
        <i />
        not failed
      </span>
      <span>
        <i className="bad" />
        failed
      </span>
    </span>
  );
}

const MOST_SHOWN = 12;

function Environments({ projects, base }: { projects: ProjectItem[]; base: string }) {
  return (
    <Card
      title="Projects"
      flush
      aside={
        <Link className="link small" href={`${base}/projects`}>
          All {projects.length}
        </Link>
      }
    >
      {projects.slice(0, MOST_SHOWN).map((project) => (
        <Link
          key={project.id}
          className="tr"
          style={{ gridTemplateColumns: "minmax(0, 1fr) auto" }}
          href={`${base}${path("projects", project.id)}`}
        >
          <span className="cut">{project.name}</span>
          <span className="row">
            {project.environments.map((each) => (
              <span key={each.id} className="row">
                <span className="small dim">{each.name}</span>
                <EnvironmentBadge environment={each} />
              </span>
            ))}
          </span>
        </Link>
      ))}
    </Card>
  );
}
