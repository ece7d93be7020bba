import { useMemo } from "react";
import { Link } from "wouter";
import {
  ALL_STATES,
  ISSUE_FILTERS,
  type Issue,
  type IssueFilters,
  STATES,
  stateFilter,
  stateValues,
  useIssues,
} from "../api/issues";
import { type ProjectItem, useProjects } from "../api/projects";
import { useMore } from "../api/queries";
import type { System } from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { NoMatch, PlaceChoice, Several, TimeChoice, Typed } from "../components/filters";
import { HoursChart, IssueBadge } from "../components/IssueParts";
import { SystemMark, useSystemsByName } from "../components/Mark";
import { VirtualList } from "../components/VirtualList";
import { environmentOf } from "../lib/attention";
import { useFilters, useResolved } from "../lib/filters";
import { capped, counted, whatFailed } from "../lib/issues";
import { path } from "../lib/links";
import { visible } from "../lib/text";

const COLUMNS =
  "104px minmax(120px, 1fr) minmax(120px, 1.6fr) minmax(110px, 1fr) 104px 72px 72px minmax(60px, 0.6fr) minmax(60px, 0.6fr) 84px";
const HEAD = [
  "State",
  "Task",
  "What failed",
  "Where",
  "Last 24 hours",
  "Runs",
  "Users",
  "Since",
  "Assignee",
  "Last seen",
];
const NARROW = {
  columns: "96px minmax(80px, 1fr) minmax(120px, 1.4fr) 64px 80px",
  head: ["State", "Task", "What failed", "Runs", "Last seen"],
};

export default function IssuesPage() {
  const { namespace } = useOrganisation();
  const [filters, change] = useFilters(ISSUE_FILTERS);
  const { data: projects = [] } = useProjects();
  const { start: since } = useResolved(useMemo(() => ({ last: filters.last, start: filters.since }), [filters]));
  const issues = useIssues(useMemo(() => ({ ...filters, since }), [filters, since]));
  const items = useMemo(() => issues.data?.pages.flatMap((each) => each.items) ?? [], [issues.data]);
  const systems = useSystemsByName();
  const onEnd = useMore(issues);
  const total = issues.data?.pages[0]?.totalCount;
  return (
    <>
      <PageHead
        title="Issues"
        sub={total === undefined ? undefined : `${counted(total, "issue")}, sorted by last seen`}
      />
      <Filters filters={filters} change={change} projects={projects} />
      <Failure error={issues.error} />
      <div className="card">
        {issues.isPending ? (
          <Loading what="issues" />
        ) : items.length > 0 ? (
          <VirtualList
            label="Issues"
            columns={COLUMNS}
            head={HEAD}
            narrow={NARROW}
            items={items}
            keyOf={(issue) => issue.id}
            row={(issue, columns) => (
              <Row
                issue={issue}
                columns={columns}
                projects={projects}
                namespace={namespace}
                system={issue.system ? systems.get(issue.system) : undefined}
              />
            )}
            onEnd={onEnd}
          />
        ) : Object.values(filters).some(Boolean) ? (
          <NoMatch
            what="issues"
            onClear={() => change(Object.fromEntries(ISSUE_FILTERS.map((each) => [each, ""])))}
          />
        ) : (
          <Empty title="No open issues">Runs that fail the same way appear here as one issue.</Empty>
        )}
      </div>
    </>
  );
}

function Row({
  issue,
  columns,
  projects,
  namespace,
  system,
}: {
  issue: Issue;
  columns: string;
  projects: ProjectItem[];
  namespace: string;
  system: System | undefined;
}) {
  const place = environmentOf(projects, issue.environmentId);
  const href = issue.projectId
    ? path(namespace, "projects", issue.projectId, "issues", issue.id)
    : path(namespace, "issues");
  return (
    <Link className="tr" href={href} style={{ gridTemplateColumns: columns }}>
      <span>
        <IssueBadge state={issue.state} />
      </span>
      <span className="cut" title={`${issue.kind} ${issue.task}`}>
        {issue.task} <span className="dimmer small">{issue.kind}</span>
      </span>
      <span className="cut" title={visible(issue.message)}>
        {issue.system && <SystemMark system={system ?? { name: issue.system }} small />}
        {visible(whatFailed(issue))} <span className="dim">{visible(issue.message)}</span>
      </span>
      <span className="cut dim wide">
        {place ? `${place.project.name} · ${place.environment.name}` : issue.environmentId}
      </span>
      <span className="wide">
        <HoursChart hours={issue.hours} />
      </span>
      <span>{issue.count.toLocaleString()}</span>
      <span className="dim wide">{issue.users ? capped(issue.users) : "–"}</span>
      <span className="cut dim wide">{visible(issue.firstVersion?.name) || "–"}</span>
      <span className="cut dim wide">{visible(issue.assignee) || "–"}</span>
      <span className="dim">
        <Time value={issue.lastSeen} />
      </span>
    </Link>
  );
}

function Filters({
  filters,
  change,
  projects,
}: {
  filters: IssueFilters;
  change: (changes: Partial<IssueFilters>) => void;
  projects: ProjectItem[];
}) {
  return (
    <search className="filters">
      <PlaceChoice projects={projects} filters={filters} change={change} />
      <Several
        name="State"
        value={stateValues(filters.state)}
        options={STATES}
        shown={filters.state === ALL_STATES ? "all" : undefined}
        onChange={(values) => values && change({ state: stateFilter(values) })}
      />
      <TimeChoice
        filters={{ last: filters.last, start: filters.since, end: filters.until }}
        change={({ last, start, end }) => change({ last, since: start, until: end })}
      />
      <Typed name="Task" value={filters.task} onChange={(task) => change({ task })} />
      <Typed name="System" value={filters.system} onChange={(system) => change({ system })} />
      <Typed name="Assignee" value={filters.assignee} onChange={(assignee) => change({ assignee })} />
    </search>
  );
}
