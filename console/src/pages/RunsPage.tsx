import { useCallback, useMemo, useState } from "react";
import { Link } from "wouter";
import { type ProjectItem, useProjects } from "../api/projects";
import { isOver, KINDS, RUN_FILTERS, type Run, type RunFilters, STATUSES, useRuns } from "../api/runs";
import { useOrganisation } from "../app/organisation";
import { Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { ManyRunsDialog } from "../components/ManyRunsDialog";
import { RunBadge } from "../components/status";
import { VirtualList } from "../components/VirtualList";
import { environmentOf } from "../lib/attention";
import { useFilters } from "../lib/filters";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { between, duration, short } from "../lib/time";

const COLUMNS = "104px minmax(110px, 1.1fr) minmax(120px, 1.1fr) minmax(0, 2fr) minmax(60px, 0.6fr) 70px 72px 88px";
const HEAD = ["Status", "Task", "Where", "Error", "User", "Attempt", "Took", "Queued"];

export default function RunsPage() {
  const organisation = useOrganisation();
  const [filters, change] = useFilters(RUN_FILTERS);
  const { data: projects = [] } = useProjects();
  const runs = useRuns(filters);
  const items = useMemo(() => runs.data?.pages.flatMap((each) => each.items) ?? [], [runs.data]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = runs;
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const total = runs.data?.pages[0]?.totalCount;
  return (
    <>
      <PageHead
        title="Runs"
        sub={
          total === undefined
            ? undefined
            : `${total.toLocaleString()} ${total === 1 ? "run" : "runs"}, the newest first`
        }
      >
        {organisation.canEdit && <ManyActions filters={filters} />}
      </PageHead>
      <Filters filters={filters} change={change} projects={projects} />
      <Failure error={runs.error} />
      <div className="card">
        {runs.isPending ? (
          <Loading what="runs" />
        ) : items.length === 0 ? (
          <NoRuns
            filtered={Object.values(filters).some(Boolean)}
            onClear={() => change(Object.fromEntries(RUN_FILTERS.map((each) => [each, ""])))}
          />
        ) : (
          <VirtualList
            label="Runs"
            columns={COLUMNS}
            head={HEAD}
            items={items}
            keyOf={(run) => `${run.environmentId}/${run.id}`}
            row={(run, columns) => (
              <Row run={run} columns={columns} projects={projects} namespace={organisation.namespace} />
            )}
            onEnd={onEnd}
          />
        )}
      </div>
    </>
  );
}

function Row({
  run,
  columns,
  projects,
  namespace,
}: {
  run: Run;
  columns: string;
  projects: ProjectItem[];
  namespace: string;
}) {
  const place = environmentOf(projects, run.environmentId);
  const href = place ? path(namespace, "projects", place.project.id, "runs", run.id) : `/${namespace}/runs`;
  const end = run.endedAt ?? (isOver(run.status) ? undefined : new Date().toISOString());
  return (
    <Link className="tr" href={href} style={{ gridTemplateColumns: columns }}>
      <span>
        <RunBadge status={run.status} />
      </span>
      <span className="cut" title={`${run.kind} ${run.task}`}>
        {run.task} <span className="dimmer small">{run.kind}</span>
      </span>
      <span className="cut dim">
        {place ? `${place.project.name} · ${place.environment.name}` : run.environmentId}
      </span>
      <span className="cut dim" title={visible(run.error?.message)}>
        {run.error && visible(`${run.error.upstream ? `${run.error.upstream.status}: ` : ""}${run.error.message}`)}
      </span>
      <span className="cut dim">{visible(run.user?.externalId)}</span>
      <span className="dim">{run.attempts ? `${run.attempt} of ${run.attempts}` : run.attempt}</span>
      <span className="dim">{run.startedAt && end ? duration(between(run.startedAt, end)) : "–"}</span>
      <span className="dim">
        <Time value={run.queuedAt} />
      </span>
    </Link>
  );
}

type Change = (changes: Partial<RunFilters>) => void;

function Filters({ filters, change, projects }: { filters: RunFilters; change: Change; projects: ProjectItem[] }) {
  const chosen = projects.filter((each) => !filters.project || each.id === filters.project);
  const environments = [...new Set(chosen.flatMap((each) => each.environments.map((one) => one.name)))].sort();
  return (
    <search className="filters">
      <Choice
        name="Project"
        value={filters.project}
        options={projects.map((each) => [each.id, each.name])}
        onChange={(project) => change({ project, environment: "" })}
      />
      <Choice
        name="Environment"
        value={filters.environment}
        options={environments.map((each) => [each, each])}
        onChange={(environment) => change({ environment })}
      />
      <Choice
        name="Status"
        value={filters.status}
        options={STATUSES.map((each) => [each, each])}
        onChange={(status) => change({ status })}
      />
      <Choice
        name="Kind"
        value={filters.kind}
        options={KINDS.map((each) => [each, each])}
        onChange={(kind) => change({ kind })}
      />
      <Typed name="Task" value={filters.task} onChange={(task) => change({ task })} />
      <Typed name="User" value={filters.user} onChange={(user) => change({ user })} />
      <Typed
        name="Search in errors"
        type="search"
        value={filters.search}
        onChange={(search) => change({ search })}
      />
      {(["version", "key", "start", "end"] as const)
        .filter((each) => filters[each])
        .map((each) => (
          <button
            key={each}
            type="button"
            className="button small"
            onClick={() => change({ [each]: "" })}
            aria-label={`Remove the filter ${each}`}
          >
            {each}: {each === "start" || each === "end" ? short(filters[each]) : filters[each]} ×
          </button>
        ))}
    </search>
  );
}

export function Choice({
  name,
  value,
  options,
  onChange,
}: {
  name: string;
  value: string;
  options: [string, string][];
  onChange: (value: string) => void;
}) {
  return (
    <select className="input" aria-label={name} value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">{`${name}: all`}</option>
      {value && !options.some(([each]) => each === value) && <option value={value}>{value}</option>}
      {options.map(([each, text]) => (
        <option key={each} value={each}>
          {text}
        </option>
      ))}
    </select>
  );
}

/** A filter that counts once it is typed: by Enter, or when it loses the focus. */
export function Typed({
  name,
  value,
  onChange,
  type = "text",
}: {
  name: string;
  value: string;
  onChange: (value: string) => void;
  type?: string;
}) {
  const [text, setText] = useState<string>();
  const done = () => {
    if (text !== undefined && text.trim() !== value) onChange(text.trim());
    setText(undefined);
  };
  return (
    <input
      className="input"
      type={type}
      size={12}
      aria-label={name}
      placeholder={name}
      value={text ?? value}
      onChange={(event) => setText(event.target.value)}
      onBlur={done}
      onKeyDown={(event) => event.key === "Enter" && done()}
    />
  );
}

function NoRuns({ filtered, onClear }: { filtered: boolean; onClear: () => void }) {
  if (!filtered) {
    return (
      <Empty
        title="Nothing has run yet"
        commands={["tieline call /WEBHOOK", "curl -X POST https://…/WEBHOOK-URL -d '{}'"]}
      >
        A run appears here when a webhook is called, an event is published or a schedule is due. A project's page
        shows the URLs of its webhooks.
      </Empty>
    );
  }
  return (
    <div className="empty">
      <h2>No run is like that</h2>
      <button type="button" className="button" onClick={onClear}>
        Clear the filters
      </button>
    </div>
  );
}

function ManyActions({ filters }: { filters: RunFilters }) {
  const [verb, setVerb] = useState<"replay" | "cancel">();
  const enough = Boolean(filters.project) && RUN_FILTERS.some((each) => each !== "project" && filters[each]);
  const title = enough ? undefined : "Choose a project and one more filter first";
  return (
    <>
      <button type="button" className="button" disabled={!enough} title={title} onClick={() => setVerb("replay")}>
        Replay these…
      </button>
      <button type="button" className="button" disabled={!enough} title={title} onClick={() => setVerb("cancel")}>
        Cancel these…
      </button>
      {verb && <ManyRunsDialog verb={verb} filters={filters} onClose={() => setVerb(undefined)} />}
    </>
  );
}
