import { useState } from "react";
import { Link } from "wouter";
import { stateOf } from "../api/connections";
import { useProjects } from "../api/projects";
import { useRuns } from "../api/runs";
import { type Activation, useActivations, useUser } from "../api/users";
import { useOrganisation } from "../app/organisation";
import { Card, Empty, Failure, Json, Loading, PageHead, Time } from "../components/basics";
import { RunBadge } from "../components/status";
import { VariablesDialog } from "../components/VariablesDialog";
import { environmentOf } from "../lib/attention";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { useNow } from "../lib/time";
import { ConnectionBadge } from "./ConnectionsPage";

const MOST_RUNS = 20;

export default function UserPage({ user }: { user: string }) {
  const { namespace } = useOrganisation();
  const found = useUser(user);
  const { data: projects = [] } = useProjects();
  const external = found.data?.externalId;
  const { activations, pending, error } = useActivations(
    external,
    projects.flatMap((each) => each.environments.map((one) => one.id)),
  );
  if (found.isPending) return <Loading what="the user" />;
  if (!found.data) return <Failure error={found.error} />;
  return (
    <>
      <PageHead
        title={found.data.displayName || found.data.externalId}
        crumbs={<Link href={`/${namespace}/users`}>Users</Link>}
        sub={<code>{found.data.externalId}</code>}
      />
      <div className="split">
        <div className="stack">
          <Failure error={error} />
          {pending && <Loading what="activations" />}
          {!pending && activations.length === 0 && (
            <Card title="Activations">
              <Empty title="Not activated anywhere">This user has connected no account yet.</Empty>
            </Card>
          )}
          {activations.map((each) => (
            <ActivationCard
              key={each.id}
              activation={each}
              project={environmentOf(projects, each.environment.id)?.project}
              namespace={namespace}
            />
          ))}
        </div>
        <Runs user={found.data.externalId} namespace={namespace} />
      </div>
    </>
  );
}

function ActivationCard({
  activation,
  project,
  namespace,
}: {
  activation: Activation;
  project: { id: string; name: string } | undefined;
  namespace: string;
}) {
  const { canEdit } = useOrganisation();
  const [editing, setEditing] = useState(false);
  const now = useNow();
  return (
    <Card
      title={`${project?.name ?? ""} · ${activation.environment.name}`}
      aside={
        canEdit &&
        project && (
          <button type="button" className="button small" onClick={() => setEditing(true)}>
            Variables…
          </button>
        )
      }
    >
      {editing && project && (
        <VariablesDialog activation={activation} project={project.id} onClose={() => setEditing(false)} />
      )}
      <div className="stack-s">
        {activation.variableErrors?.map((each) => (
          <div key={`${each.field}${each.message}`} className="note bad">
            <code>{each.field}</code>: {visible(each.message)}
          </div>
        ))}
        <h3>Variables</h3>
        <Json value={activation.dynamicVariables} />
        <h3>Connections</h3>
        {activation.connections.length === 0 && <span className="dim">None.</span>}
        {activation.connections.map((each) => (
          <div key={each.id} className="row">
            <Link className="link grow cut" href={path(namespace, "connections", each.id)}>
              {each.name}
            </Link>
            <ConnectionBadge state={stateOf(each, now).state} />
          </div>
        ))}
      </div>
    </Card>
  );
}

const SHOWN = { all: "", failed: "failed", dead: "dead" } as const;

function Runs({ user, namespace }: { user: string; namespace: string }) {
  const [only, setOnly] = useState<keyof typeof SHOWN>("all");
  const runs = useRuns({ user, status: SHOWN[only] }, { first: MOST_RUNS });
  const { data: projects = [] } = useProjects();
  const items = runs.data?.pages[0]?.items ?? [];
  return (
    <Card
      title="Runs for this user"
      flush
      aside={
        <>
          <fieldset className="segments" aria-label="Which runs">
            {(Object.keys(SHOWN) as (keyof typeof SHOWN)[]).map((each) => (
              <button key={each} type="button" aria-pressed={each === only} onClick={() => setOnly(each)}>
                {each}
              </button>
            ))}
          </fieldset>
          <Link className="link small" href={`/${namespace}/runs?${new URLSearchParams({ user })}`}>
            All {runs.data?.pages[0]?.totalCount}
          </Link>
        </>
      }
    >
      <Failure error={runs.error} />
      {runs.isPending && <Loading what="runs" />}
      {runs.data && items.length === 0 && <div className="card-body dim">None yet.</div>}
      {items.map((each) => {
        const place = environmentOf(projects, each.environmentId);
        return (
          <Link
            key={each.id}
            className="problem"
            href={place ? path(namespace, "projects", place.project.id, "runs", each.id) : `/${namespace}/runs`}
          >
            <RunBadge status={each.status} />
            <span className="grow">
              {each.task}
              <span className="dim cut" style={{ display: "block" }}>
                {visible(each.error?.message)}
              </span>
            </span>
            <span className="small dim">
              <Time value={each.queuedAt} />
            </span>
          </Link>
        );
      })}
    </Card>
  );
}
