import { useMemo, useState } from "react";
import { Link } from "wouter";
import { type ProjectItem, useProjects } from "../api/projects";
import { RUN_FILTERS, type Run, type RunFilters, type Selection, useBacklog, useRuns } from "../api/runs";
import { useOrganisation } from "../app/organisation";
import { Card, Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { ManyRunsDialog } from "../components/ManyRunsDialog";
import { environmentOf } from "../lib/attention";
import { byTask, depthOf, type TaskBacklog } from "../lib/backlog";
import { readFilters } from "../lib/filters";
import { visible } from "../lib/text";

const MOST = 200;
const MOST_KEYS = 5;
const GOES_ON = ["queued", "running", "waiting"];
const NOBODY: ProjectItem[] = [];

/** What waits and what was given up, by task and key: how much, since when, and why. */
export default function DeadLettersPage() {
  const projects = useProjects();
  const backlog = useBacklog();
  const dead = useRuns({ status: "dead" }, { discarded: false, replayed: false, first: MOST });
  const items = backlog.data?.items;
  const waiting = useMemo(() => byTask(items ?? [], GOES_ON), [items]);
  const letters = useMemo(() => byTask(items ?? [], ["dead"]), [items]);
  const places = projects.data ?? NOBODY;
  const count = letters.reduce((sum, each) => sum + depthOf(each), 0);
  return (
    <>
      <PageHead
        title="Events and dead letters"
        sub={
          items &&
          `${count === 1 ? "1 dead letter needs" : `${count} dead letters need`} action; ${waiting.reduce((sum, each) => sum + depthOf(each), 0)} events wait or run`
        }
      />
      <Failure error={backlog.error ?? dead.error ?? projects.error} />
      <Card title="Given up" flush aside={count > 0 && <span className="count">{count}</span>}>
        {backlog.isPending && <Loading what="dead letters" />}
        {items && letters.length === 0 && (
          <Empty title="No dead letter" commands={["tieline runs list --status dead"]}>
            An event that fails in all of its attempts waits here until you replay or discard it.
          </Empty>
        )}
        {letters.map((each) => (
          <LetterRow key={each.key} group={each} projects={places} runs={dead.data?.pages[0]?.items ?? []} />
        ))}
      </Card>
      <Card title="Waiting" flush aside={<span className="small dim">the oldest first</span>}>
        {backlog.isPending && <Loading what="what waits" />}
        {items && waiting.length === 0 && <div className="card-body dim">No events are queued or running.</div>}
        {waiting.map((each) => (
          <WaitingRow key={each.key} group={each} projects={places} />
        ))}
      </Card>
      {backlog.data?.more && <p className="note">More tasks and keys exist than are counted here.</p>}
    </>
  );
}

function placeOf(projects: ProjectItem[], group: TaskBacklog): { where: string; filters: RunFilters } {
  const place = environmentOf(projects, group.environmentId);
  return {
    where: place ? `${place.project.name} · ${place.environment.name}` : group.environmentId,
    filters: {
      ...NONE,
      task: group.task,
      project: place?.project.id ?? "",
      environment: place?.environment.name ?? "",
    },
  };
}

function linkTo(namespace: string, filters: RunFilters): string {
  return `/${namespace}/runs?${new URLSearchParams(Object.entries(filters).filter(([, value]) => value))}`;
}

function WaitingRow({ group, projects }: { group: TaskBacklog; projects: ProjectItem[] }) {
  const { namespace } = useOrganisation();
  const { where, filters } = placeOf(projects, group);
  const states = GOES_ON.filter((each) => group.counts[each]).map((each) => `${group.counts[each]} ${each}`);
  return (
    <section className="problem" aria-label={`Waiting of ${group.task} in ${where}`}>
      <span className={`dot ${group.counts.waiting ? "warn" : "info"}`} />
      <div className="grow">
        <Link className="link" href={linkTo(namespace, filters)}>
          <strong>{group.task}</strong>
        </Link>
        <div className="dim">
          {where} · {states.join(", ")} · the oldest <Time value={group.oldest} />
        </div>
        <Keys group={group} filters={filters} />
      </div>
      <span className="big">{depthOf(group)}</span>
    </section>
  );
}

function LetterRow({ group, projects, runs }: { group: TaskBacklog; projects: ProjectItem[]; runs: Run[] }) {
  const { namespace, canEdit } = useOrganisation();
  const [asked, setAsked] = useState<{ verb: "replay" | "discard"; selections: Selection[] }>();
  const { where, filters } = placeOf(projects, group);
  const dead = { ...filters, status: "dead" };
  const ask = (verb: "replay" | "discard") => setAsked({ verb, selections: [{ filters: dead }] });
  const last = runs.find((each) => each.environmentId === group.environmentId && each.task === group.task);
  return (
    <section className="problem" aria-label={`Dead letters of ${group.task} in ${where}`}>
      <span className="dot bad" />
      <div className="grow">
        <Link className="link" href={linkTo(namespace, dead)}>
          <strong>{group.task}</strong>
        </Link>
        <div className="dim">
          {where} · {depthOf(group)} · the oldest <Time value={group.oldest} />
        </div>
        <Keys group={group} filters={dead} />
        <div className="dim cut">{visible(last?.error?.message)}</div>
      </div>
      {canEdit && filters.project && (
        <div className="row">
          <button type="button" className="button small" onClick={() => ask("replay")}>
            Replay…
          </button>
          <button type="button" className="button small quiet" onClick={() => ask("discard")}>
            Discard…
          </button>
        </div>
      )}
      {asked && <ManyRunsDialog {...asked} onClose={() => setAsked(undefined)} />}
    </section>
  );
}

/** The keys with most: events of one key run one after the other, so one that fails holds the others up. */
function Keys({ group, filters }: { group: TaskBacklog; filters: RunFilters }) {
  const { namespace } = useOrganisation();
  if (group.keys.length === 0) return null;
  const left = group.keys.length - MOST_KEYS;
  return (
    <div className="row wrap small" style={{ marginTop: 4 }}>
      <span className="dim">by key</span>
      {group.keys.slice(0, MOST_KEYS).map((each) => (
        <Link
          key={each.key}
          className="badge plain cut"
          title={visible(each.key)}
          href={linkTo(namespace, { ...filters, key: each.key })}
        >
          {visible(each.key)} · {each.count}
        </Link>
      ))}
      {left > 0 && <span className="dim">and {left} more</span>}
    </div>
  );
}

const NONE: RunFilters = readFilters("", RUN_FILTERS);
