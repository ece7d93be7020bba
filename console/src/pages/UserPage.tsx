import { useState } from "react";
import { Link } from "wouter";
import { useProjects } from "../api/projects";
import { useRuns } from "../api/runs";
import { type Activation, useActivations, useUser, useUserConnections } from "../api/users";
import { useOrganisation } from "../app/organisation";
import { Card, Empty, Failure, Json, Loading, PageHead, Time } from "../components/basics";
import { RunBadge } from "../components/status";
import {
  ActivationDialog,
  ConnectionDeletionDialog,
  DeactivationDialog,
  UserDeletionDialog,
} from "../components/UserDialogs";
import { VariablesDialog } from "../components/VariablesDialog";
import { environmentOf } from "../lib/attention";
import { stateOf } from "../lib/connections";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { useNow } from "../lib/time";
import { ConnectionBadge } from "./ConnectionsPage";

const MOST_RUNS = 20;

export default function UserPage({ user }: { user: string }) {
  const { namespace, canEdit } = useOrganisation();
  const [doing, setDoing] = useState<"activate" | "delete">();
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
      >
        {canEdit && (
          <>
            <button type="button" className="button" onClick={() => setDoing("activate")}>
              Activate…
            </button>
            <button type="button" className="button danger" onClick={() => setDoing("delete")}>
              Delete…
            </button>
          </>
        )}
      </PageHead>
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
          <UserConnections user={found.data.id} />
        </div>
        <Runs user={found.data.externalId} namespace={namespace} />
      </div>
      {doing === "activate" && (
        <ActivationDialog
          user={found.data}
          projects={projects}
          active={activations.map((each) => each.environment.id)}
          onClose={() => setDoing(undefined)}
        />
      )}
      {doing === "delete" && (
        <UserDeletionDialog
          user={found.data}
          activations={activations.length}
          onClose={() => setDoing(undefined)}
        />
      )}
    </>
  );
}

/** All connections of the user, used or not. */
function UserConnections({ user }: { user: string }) {
  const { namespace, canEdit } = useOrganisation();
  const connections = useUserConnections(user);
  const now = useNow();
  const [deleting, setDeleting] = useState<{ id: string; name: string }>();
  return (
    <Card title="Connections of this user" flush>
      <Failure error={connections.error} />
      {connections.isPending && <Loading what="connections" />}
      {connections.data?.length === 0 && <div className="card-body dim">None yet.</div>}
      {connections.data?.map((each) => (
        <div key={each.id} className="problem">
          <Link className="link grow cut" href={path(namespace, "connections", each.id)}>
            {visible(each.name)}
          </Link>
          <ConnectionBadge state={stateOf(each, now).state} />
          {canEdit && (
            <button
              type="button"
              className="button small quiet danger"
              aria-label={`Delete ${each.name}…`}
              onClick={() => setDeleting(each)}
            >
              Delete…
            </button>
          )}
        </div>
      ))}
      {deleting && <ConnectionDeletionDialog connection={deleting} onClose={() => setDeleting(undefined)} />}
    </Card>
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
  const [deactivating, setDeactivating] = useState(false);
  const now = useNow();
  return (
    <Card
      title={`${project?.name ?? ""} · ${activation.environment.name}`}
      aside={
        canEdit &&
        project && (
          <>
            <button type="button" className="button small" onClick={() => setEditing(true)}>
              Variables…
            </button>
            <button type="button" className="button small quiet danger" onClick={() => setDeactivating(true)}>
              Deactivate…
            </button>
          </>
        )
      }
    >
      {deactivating && project && (
        <DeactivationDialog activation={activation} project={project.name} onClose={() => setDeactivating(false)} />
      )}
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
