import { Link } from "wouter";
import { type Issue, useIssues } from "../api/issues";
import { bars, counted, STATE_TONES, whatFailed } from "../lib/issues";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { Badge, Card, Failure, Loading, Time } from "./basics";

export function IssueBadge({ state }: { state: Issue["state"] }) {
  return <Badge tone={STATE_TONES[state]}>{state}</Badge>;
}

const WIDTH = 96;
const HEIGHT = 20;

/** How many runs failed in each of the last hours, as bars. */
export function HoursChart({ hours }: { hours: number[] }) {
  const total = hours.reduce((sum, each) => sum + each, 0);
  const step = WIDTH / Math.max(1, hours.length);
  return (
    <svg
      className="hours"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${total.toLocaleString()} in the last ${hours.length} hours`}
    >
      {bars(hours).map(({ x, height }) => (
        <rect
          key={x}
          x={x * step}
          y={HEIGHT * (1 - height)}
          width={step - 1}
          height={HEIGHT * height}
          className={height ? "bad" : ""}
        />
      ))}
      <line x1="0" x2={WIDTH} y1={HEIGHT} y2={HEIGHT} />
    </svg>
  );
}

const MOST_SHOWN = 5;

/** The issues of a project that need attention, or of one of its environments. */
export function IssuesCard({
  namespace,
  project,
  environment,
}: {
  namespace: string;
  project: string;
  environment?: string;
}) {
  const issues = useIssues({ project, environment }, { first: MOST_SHOWN });
  const page = issues.data?.pages[0];
  const href = `${path(namespace, "issues")}?${new URLSearchParams({ project, ...(environment ? { environment } : {}) })}`;
  return (
    <Card
      title="Issues"
      flush
      aside={
        <Link className="link small" href={href}>
          {page ? `All ${page.totalCount}` : "All"}
        </Link>
      }
    >
      {issues.isPending && <Loading what="the issues" />}
      {issues.error && (
        <div className="card-body">
          <Failure error={issues.error} />
        </div>
      )}
      {page?.items.length === 0 && <div className="card-body dim">No open issues.</div>}
      {page?.items.map((each) => (
        <Link key={each.id} className="problem" href={path(namespace, "projects", project, "issues", each.id)}>
          <IssueBadge state={each.state} />
          <span className="grow">
            <strong>{visible(`${each.task}: ${whatFailed(each)}`)}</strong>
            <span className="dim cut" style={{ display: "block" }}>
              {counted(each.count, "run")} · {visible(each.message)}
            </span>
          </span>
          <span className="small dimmer">
            <Time value={each.lastSeen} />
          </span>
        </Link>
      ))}
    </Card>
  );
}
