import { useMemo, useState } from "react";
import { Link } from "wouter";
import { useProjects } from "../api/projects";
import { type Run, type RunFilters, useRuns } from "../api/runs";
import { useOrganisation } from "../app/organisation";
import { Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { ManyRunsDialog } from "../components/ManyRunsDialog";
import { environmentOf } from "../lib/attention";

const MOST = 200;

interface Group {
  key: string;
  runs: Run[];
  filters: RunFilters;
  where: string;
}

/** Events that were given up, by task: how many, since when, and why. */
export default function DeadLettersPage() {
  const organisation = useOrganisation();
  const projects = useProjects();
  const dead = useRuns({ status: "dead" }, { discarded: false, replayed: false, first: MOST });
  const page = dead.data?.pages[0];
  const groups = useMemo(() => grouped(page?.items ?? [], projects.data ?? []), [page, projects.data]);
  return (
    <>
      <PageHead
        title="Dead letters"
        sub={page && `${page.totalCount} events were given up and wait for somebody`}
      />
      <Failure error={dead.error ?? projects.error} />
      <div className="card">
        {dead.isPending && <Loading what="dead letters" />}
        {page && groups.length === 0 && (
          <Empty title="No dead letter">
            An event that fails in all of its attempts waits here until you replay or discard it.
          </Empty>
        )}
        {groups.map((group) => (
          <GroupRow
            key={group.key}
            group={group}
            namespace={organisation.namespace}
            canEdit={organisation.canEdit}
          />
        ))}
      </div>
      {page && page.totalCount > MOST && <p className="note">The newest {MOST} are shown.</p>}
    </>
  );
}

function GroupRow({ group, namespace, canEdit }: { group: Group; namespace: string; canEdit: boolean }) {
  const [verb, setVerb] = useState<"replay" | "discard">();
  const oldest = group.runs.at(-1)?.queuedAt;
  const search = new URLSearchParams(Object.entries(group.filters).filter(([, value]) => value));
  return (
    <section className="problem" aria-label={`Dead letters of ${group.filters.task}`}>
      <span className="dot bad" />
      <div className="grow">
        <Link className="link" href={`/${namespace}/runs?${search}`}>
          <strong>{group.filters.task}</strong>
        </Link>
        <div className="dim">
          {group.where} · {group.runs.length} · the oldest <Time value={oldest} />
        </div>
        <div className="dim cut">{group.runs[0]?.error?.message}</div>
      </div>
      {canEdit && group.filters.project && (
        <div className="row">
          <button type="button" className="button small" onClick={() => setVerb("replay")}>
            Replay…
          </button>
          <button type="button" className="button small quiet" onClick={() => setVerb("discard")}>
            Discard…
          </button>
        </div>
      )}
      {verb && <ManyRunsDialog verb={verb} filters={group.filters} onClose={() => setVerb(undefined)} />}
    </section>
  );
}

function grouped(runs: Run[], projects: Parameters<typeof environmentOf>[0]): Group[] {
  const groups = new Map<string, Group>();
  for (const run of runs) {
    const key = `${run.environmentId}/${run.task}`;
    const place = environmentOf(projects, run.environmentId);
    const found = groups.get(key) ?? {
      key,
      runs: [],
      filters: {
        ...NONE,
        status: "dead",
        task: run.task,
        project: place?.project.id ?? "",
        environment: place?.environment.name ?? "",
      },
      where: place ? `${place.project.name} · ${place.environment.name}` : run.environmentId,
    };
    found.runs.push(run);
    groups.set(key, found);
  }
  return [...groups.values()].sort((one, other) => other.runs.length - one.runs.length);
}

const NONE: RunFilters = {
  project: "",
  environment: "",
  status: "",
  kind: "",
  task: "",
  user: "",
  version: "",
  key: "",
  search: "",
  start: "",
  end: "",
};
