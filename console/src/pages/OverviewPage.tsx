import { useMemo } from "react";
import { Link } from "wouter";
import { useConnections } from "../api/connections";
import { type ProjectItem, type Summary, useProjects, useSummary } from "../api/projects";
import { useRuns } from "../api/runs";
import { useLateSchedules } from "../api/schedules";
import { useOrganisation } from "../app/organisation";
import { Card, Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { RunsChart } from "../components/RunsChart";
import { EnvironmentBadge } from "../components/status";
import { type Problem, problems } from "../lib/attention";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { useNow } from "../lib/time";

const HOUR = 3_600_000;
const BUCKETS = 24;
const MOST_DEAD = 200;

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
  const dead = useRuns({ status: "dead" }, { discarded: false, replayed: false, first: MOST_DEAD });
  const connections = useConnections();
  const late = useLateSchedules();
  const now = useNow();
  const letters = dead.data?.pages[0];
  const found = useMemo(
    () =>
      problems(
        {
          projects: projects.data ?? [],
          dead: letters?.items ?? [],
          connections: connections.data?.pages.flatMap((each) => each.items) ?? [],
          late: late.data?.items ?? [],
        },
        now,
      ),
    [projects.data, letters, connections.data, late.data, now],
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
            base={`/${organisation.namespace}`}
          />
          <Attention
            found={found}
            failures={[dead.error, connections.error, late.error]}
            pending={dead.isPending || connections.isPending || late.isPending}
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

function NoProjects({ namespace }: { namespace: string }) {
  return (
    <div className="card">
      <Empty
        title="No project yet"
        commands={["tieline run examples/quickstart", `kubectl apply -n ${namespace} -k examples/quickstart`]}
      >
        A project is the code that connects systems. Write one, or start from the example:
      </Empty>
    </div>
  );
}

function Tiles({
  projects,
  summary,
  dead,
  base,
}: {
  projects: ProjectItem[];
  summary: Summary | undefined;
  dead: number | undefined;
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
        href={`${base}/runs`}
      />
      <Tile
        name="Failed, 24 h"
        value={current}
        note={summary && `${summary.totalErrors.past} the day before`}
        href={`${base}/runs?status=failed`}
      />
      <Tile name="Dead letters" value={dead} href={`${base}/runs?status=dead`} />
    </div>
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
  base,
}: {
  found: Problem[];
  failures: unknown[];
  pending: boolean;
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
          <div className="problem">
            <span className="dot good" />
            Nothing is broken.
          </div>
        ))}
    </Card>
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
