import { useMemo, useState } from "react";
import { Link } from "wouter";
import { type ProjectItem, useProjects } from "../api/projects";
import { useMore } from "../api/queries";
import {
  FAILED,
  isOver,
  KINDS,
  NOT_ENDED,
  RUN_FILTERS,
  type Run,
  type RunFilters,
  STATUSES,
  useRuns,
} from "../api/runs";
import { useOrganisation } from "../app/organisation";
import { Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { Choice, NoMatch, PlaceChoice, Removable, Typed } from "../components/filters";
import { ManyRunsDialog } from "../components/ManyRunsDialog";
import { RunBadge } from "../components/status";
import { Tags } from "../components/Tags";
import { VirtualList } from "../components/VirtualList";
import { environmentOf } from "../lib/attention";
import { changedSearch, useFilters } from "../lib/filters";
import { path } from "../lib/links";
import { progressText } from "../lib/progress";
import { type Tag, withoutTag, withTag } from "../lib/tags";
import { visible } from "../lib/text";
import { between, duration, short } from "../lib/time";

const COLUMNS =
  "150px minmax(110px, 1fr) minmax(110px, 1fr) minmax(100px, 1.3fr) minmax(0, 1.4fr) minmax(50px, 0.5fr) 64px 66px 84px";
const HEAD = ["Status", "Task", "Where", "Tags", "Error", "User", "Attempt", "Took", "Queued"];
const TAGS_COLUMN = 4;
const MOST_TAGS = 2;
/** In a small window: what ran, and why it failed. */
const NARROW = {
  columns: "104px minmax(90px, 1fr) minmax(150px, 1.6fr) 80px",
  head: ["Status", "Task", "Error", "Queued"],
};

export default function RunsPage() {
  const organisation = useOrganisation();
  const [filters, change] = useFilters(RUN_FILTERS);
  const { data: projects = [] } = useProjects();
  const runs = useRuns(filters);
  const items = useMemo(() => runs.data?.pages.flatMap((each) => each.items) ?? [], [runs.data]);
  const onEnd = useMore(runs);
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
            narrow={NARROW}
            items={items}
            keyOf={(run) => `${run.environmentId}/${run.id}`}
            row={(run, columns) => (
              <Row
                run={run}
                columns={columns}
                projects={projects}
                namespace={organisation.namespace}
                filters={filters}
              />
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
  filters,
}: {
  run: Run;
  columns: string;
  projects: ProjectItem[];
  namespace: string;
  filters: RunFilters;
}) {
  const place = environmentOf(projects, run.environmentId);
  const href = place ? path(namespace, "projects", place.project.id, "runs", run.id) : `/${namespace}/runs`;
  const end = run.endedAt ?? (isOver(run.status) ? undefined : new Date().toISOString());
  const hrefOf = (tag: Tag) =>
    `${path(namespace, "runs")}?${changedSearch("", { ...filters, tag: withTag(filters.tag, tag) })}`;
  const row = (
    <Link className="tr" href={href} style={{ gridTemplateColumns: columns }}>
      <span>
        <RunBadge status={run.status} />
        {(run.replayedBy || run.replayOf) && (
          <span className="dimmer small wide"> {run.replayedBy ? "replayed" : "replay"}</span>
        )}
      </span>
      <span className="cut" title={`${run.kind} ${run.task}`}>
        {run.task} <span className="dimmer small">{run.kind}</span>
      </span>
      <span className="cut dim wide" title={visible(run.version && `version ${run.version.name}`)}>
        {place ? `${place.project.name} · ${place.environment.name}` : run.environmentId}{" "}
        <span className="dimmer small">{visible(run.version?.name)}</span>
      </span>
      <span className="wide" />
      <span className="cut dim" title={visible(run.error?.message)}>
        {run.waitsBehind && `Waits behind ${run.waitsBehind}`}
        {run.waitsBehind && run.error && " · "}
        {!run.waitsBehind && !run.error && !isOver(run.status) && progressText(run)}
        {run.error && visible(`${run.error.upstream ? `${run.error.upstream.status}: ` : ""}${run.error.message}`)}
      </span>
      <span className="cut dim wide">{visible(run.user?.externalId)}</span>
      <span className="dim wide">{run.attempts ? `${run.attempt} of ${run.attempts}` : run.attempt}</span>
      <span className="dim wide">{run.startedAt && end ? duration(between(run.startedAt, end)) : "–"}</span>
      <span className="dim">
        <Time value={run.queuedAt} />
      </span>
    </Link>
  );
  if (run.tags.length === 0) return row;
  return (
    <>
      {row}
      <div className="tr beside wide" style={{ gridTemplateColumns: columns }}>
        <span style={{ gridColumn: TAGS_COLUMN }}>
          <Tags tags={run.tags} most={MOST_TAGS} hrefOf={hrefOf} />
        </span>
      </div>
    </>
  );
}

type Change = (changes: Partial<RunFilters>) => void;

function Filters({ filters, change, projects }: { filters: RunFilters; change: Change; projects: ProjectItem[] }) {
  return (
    <search className="filters">
      <PlaceChoice projects={projects} filters={filters} change={change} />
      <Choice
        name="Status"
        value={filters.status}
        options={[
          ...STATUSES.map((each): [string, string] => [each, each]),
          [FAILED, "failed or dead"],
          [NOT_ENDED, "not ended"],
        ]}
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
        name="Find by id, key, user or tag"
        type="search"
        value={filters.find}
        onChange={(find) => change({ find })}
      />
      <Typed
        name="Search in errors"
        type="search"
        value={filters.search}
        onChange={(search) => change({ search })}
      />
      {(filters.tag ? filters.tag.split("\n") : []).map((each) => (
        <Removable
          key={each}
          name={`tag ${visible(each)}`}
          text={visible(each)}
          onRemove={() => change({ tag: withoutTag(filters.tag, each) })}
        />
      ))}
      {(["version", "key", "issue", "start", "end"] as const)
        .filter((each) => filters[each])
        .map((each) => (
          <Removable
            key={each}
            name={each}
            text={`${each}: ${each === "start" || each === "end" ? short(filters[each]) : filters[each]}`}
            onRemove={() => change({ [each]: "" })}
          />
        ))}
    </search>
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
  return <NoMatch what="runs" onClear={onClear} />;
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
