import { type ReactNode, useCallback, useEffect, useMemo, useState } from "react";
import { Link } from "wouter";
import { type ProjectItem, useProjects } from "../api/projects";
import { useMore } from "../api/queries";
import {
  isOver,
  KINDS,
  RUN_FILTERS,
  type Run,
  type RunFilters,
  type Selection,
  STATUSES,
  useRuns,
} from "../api/runs";
import { useOrganisation } from "../app/organisation";
import { Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { Choice, NoMatch, PlaceChoice, Removable, Several, TimeChoice, Typed } from "../components/filters";
import { ManyRunsDialog } from "../components/ManyRunsDialog";
import { RunBadge } from "../components/status";
import { Tags } from "../components/Tags";
import { VirtualList } from "../components/VirtualList";
import { environmentOf } from "../lib/attention";
import { groupsOf, MOST_CHOSEN } from "../lib/chosen";
import { changedSearch, useFilters, useResolved } from "../lib/filters";
import { path } from "../lib/links";
import { progressText, waitsForText } from "../lib/progress";
import { type Tag, withoutTag, withTag } from "../lib/tags";
import { visible } from "../lib/text";
import { between, duration } from "../lib/time";

const COLUMNS =
  "150px minmax(110px, 1fr) minmax(110px, 1fr) minmax(100px, 1.3fr) minmax(0, 1.4fr) minmax(50px, 0.5fr) 64px 66px 84px";
const HEAD = ["Status", "Task", "Where", "Tags", "Error", "User", "Attempt", "Took", "Queued"];
/** The check box. */
const PICK = "20px ";
const TAGS_COLUMN = 4;
const MOST_TAGS = 2;
/** In a small window: what ran, and why it failed. */
const NARROW = {
  columns: "104px minmax(90px, 1fr) minmax(150px, 1.6fr) 80px",
  head: ["Status", "Task", "Error", "Queued"],
};

/** The same with a check box. */
const NARROW_PICK = { columns: PICK + NARROW.columns, head: ["", ...NARROW.head] };
const NOBODY: ProjectItem[] = [];

export default function RunsPage() {
  const organisation = useOrganisation();
  const [given, change] = useFilters(RUN_FILTERS);
  const filters = useResolved(given);
  const { data: projects = NOBODY } = useProjects();
  const runs = useRuns(filters);
  const [chosen, choose, chooseNone] = useChosen(filters);
  const pick = organisation.canEdit ? PICK : "";
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
        {organisation.canEdit && (
          <ManyActions filters={filters} chosen={chosen} projects={projects} onDone={chooseNone} />
        )}
      </PageHead>
      <Filters filters={given} change={change} projects={projects} />
      <Failure error={runs.error} />
      <div className="card">
        {runs.isPending ? (
          <Loading what="runs" />
        ) : items.length === 0 ? (
          <NoRuns
            filtered={Object.values(given).some(Boolean)}
            onClear={() => change(Object.fromEntries(RUN_FILTERS.map((each) => [each, ""])))}
          />
        ) : (
          <VirtualList
            label="Runs"
            columns={pick + COLUMNS}
            head={pick ? ["", ...HEAD] : HEAD}
            narrow={pick ? NARROW_PICK : NARROW}
            items={items}
            keyOf={keyOf}
            row={(run, columns) => (
              <Row
                run={run}
                columns={columns}
                projects={projects}
                namespace={organisation.namespace}
                filters={given}
                choice={pick ? <Choosing run={run} columns={columns} chosen={chosen} choose={choose} /> : undefined}
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
  choice,
}: {
  run: Run;
  columns: string;
  projects: ProjectItem[];
  namespace: string;
  filters: RunFilters;
  /** The check box, where the run can be chosen. */
  choice?: ReactNode;
}) {
  const place = environmentOf(projects, run.environmentId);
  const href = place ? path(namespace, "projects", place.project.id, "runs", run.id) : `/${namespace}/runs`;
  const end = run.endedAt ?? (isOver(run.status) ? undefined : new Date().toISOString());
  const hrefOf = (tag: Tag) =>
    `${path(namespace, "runs")}?${changedSearch("", { ...filters, tag: withTag(filters.tag, tag) })}`;
  const row = (
    <Link className="tr" href={href} style={{ gridTemplateColumns: columns }}>
      {choice && <span />}
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
        {!run.waitsBehind &&
          !run.error &&
          !isOver(run.status) &&
          (progressText(run) || waitsForText(run, "Waits for "))}
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
  return (
    <>
      {row}
      {choice}
      {run.tags.length > 0 && (
        <div className="tr beside wide" style={{ gridTemplateColumns: columns }}>
          <span style={{ gridColumn: choice ? TAGS_COLUMN + 1 : TAGS_COLUMN }}>
            <Tags tags={run.tags} most={MOST_TAGS} hrefOf={hrefOf} />
          </span>
        </div>
      )}
    </>
  );
}

type Chosen = ReadonlyMap<string, Run>;
const NONE: Chosen = new Map();

/** The runs whose boxes are checked: they are forgotten with the list that showed them. */
function useChosen(filters: RunFilters): [Chosen, (run: Run) => void, () => void] {
  const [chosen, setChosen] = useState(NONE);
  // biome-ignore lint/correctness/useExhaustiveDependencies: other filters are another list
  useEffect(() => setChosen(NONE), [filters]);
  const choose = useCallback(
    (run: Run) =>
      setChosen((before) => {
        const after = new Map(before);
        if (!after.delete(keyOf(run))) after.set(keyOf(run), run);
        return after;
      }),
    [],
  );
  const chooseNone = useCallback(() => setChosen(NONE), []);
  return [chosen, choose, chooseNone];
}

function keyOf(run: Run): string {
  return `${run.environmentId}/${run.id}`;
}

/** The check box of a run, beside the link that is its row. */
function Choosing({
  run,
  columns,
  chosen,
  choose,
}: {
  run: Run;
  columns: string;
  chosen: Chosen;
  choose: (run: Run) => void;
}) {
  const isChosen = chosen.has(keyOf(run));
  return (
    <div className="tr beside" style={{ gridTemplateColumns: columns }}>
      <label className="pick">
        <input
          type="checkbox"
          aria-label={`Choose the run ${run.id} of ${run.task}`}
          checked={isChosen}
          disabled={!isChosen && chosen.size >= MOST_CHOSEN}
          onChange={() => choose(run)}
        />
      </label>
    </div>
  );
}

type Change = (changes: Partial<RunFilters>) => void;

function Filters({ filters, change, projects }: { filters: RunFilters; change: Change; projects: ProjectItem[] }) {
  return (
    <search className="filters">
      <PlaceChoice projects={projects} filters={filters} change={change} />
      <Several name="Status" value={filters.status} options={STATUSES} onChange={(status) => change({ status })} />
      <TimeChoice filters={filters} change={change} />
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
      {(["version", "key", "issue"] as const)
        .filter((each) => filters[each])
        .map((each) => (
          <Removable
            key={each}
            name={each}
            text={`${each}: ${filters[each]}`}
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

/** Acts on the chosen runs, or on all that match. */
function ManyActions({
  filters,
  chosen,
  projects,
  onDone,
}: {
  filters: RunFilters;
  chosen: Chosen;
  projects: ProjectItem[];
  onDone: () => void;
}) {
  const [asked, setAsked] = useState<{ verb: "replay" | "cancel"; selections: Selection[] }>();
  const enough = Boolean(filters.project) && RUN_FILTERS.some((each) => each !== "project" && filters[each]);
  const title = enough ? undefined : "Choose runs, or a project and one more filter first";
  const ask = (verb: "replay" | "cancel") =>
    setAsked({
      verb,
      selections:
        chosen.size === 0
          ? [{ filters }]
          : groupsOf(chosen.values(), projects).map(({ project, environment, ids }) => ({
              filters: { project, environment },
              ids,
            })),
    });
  const what = chosen.size > 0 ? `${chosen.size} chosen` : "these";
  return (
    <>
      {chosen.size > 0 && (
        <button type="button" className="button quiet" onClick={onDone}>
          Choose none
        </button>
      )}
      {(["replay", "cancel"] as const).map((verb) => (
        <button
          key={verb}
          type="button"
          className="button"
          disabled={!enough && chosen.size === 0}
          title={chosen.size > 0 ? undefined : title}
          onClick={() => ask(verb)}
        >
          {verb === "replay" ? "Replay" : "Cancel"} {what}…
        </button>
      ))}
      {asked && <ManyRunsDialog {...asked} onDone={onDone} onClose={() => setAsked(undefined)} />}
    </>
  );
}
