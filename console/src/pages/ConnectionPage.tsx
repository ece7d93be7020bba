import { type FormEvent, useState } from "react";
import { Link, useLocation } from "wouter";
import { useOwner } from "../api/access";
import { useAuthorisation } from "../api/authorise";
import {
  type Connection,
  type Part,
  stateOf,
  useConnection,
  useConnectionDeletion,
  useConnectionTest,
  useRotation,
  useUses,
} from "../api/connections";
import { useSystem } from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { AgentsCard } from "../components/AgentsCard";
import { Card, Facts, Failure, Loading, PageHead, Time } from "../components/basics";
import { ChangesCard, OwnedNote } from "../components/Changes";
import { CredentialFields } from "../components/CredentialFields";
import { useToast } from "../components/Toasts";
import { credentialOf, nameOf, planOf } from "../lib/credentials";
import { path, safeUrl } from "../lib/links";
import { refusal } from "../lib/refusals";
import { visible } from "../lib/text";
import { useNow } from "../lib/time";
import { ConnectionBadge } from "./ConnectionsPage";

export default function ConnectionPage({ connection }: { connection: string }) {
  const { namespace, canEdit } = useOrganisation();
  const found = useConnection(connection);
  const now = useNow();
  const [deleting, setDeleting] = useState(false);
  if (found.isPending) return <Loading what="the connection" />;
  if (!found.data) return <Failure error={found.error} />;
  const data = found.data;
  const url = safeUrl(data.baseUrl);
  return (
    <>
      <PageHead
        title={data.name}
        crumbs={<Link href={`/${namespace}/connections`}>Connections</Link>}
        sub={<ConnectionBadge state={stateOf(data, now).state} />}
      >
        {canEdit && (
          <button type="button" className="button danger" onClick={() => setDeleting(true)}>
            Delete…
          </button>
        )}
      </PageHead>
      <Failure error={found.error} />
      <OwnedNote object={data.id} />
      {data.refused && <Refused refused={data.refused} />}
      <div className="split">
        <div className="stack">
          <Card title="Credentials" flush>
            {data.credentials.length === 0 && <div className="card-body dim">It has none.</div>}
            {data.credentials.map((each, at) => (
              <CredentialRow key={each.id ?? at} part={each} connection={data} />
            ))}
          </Card>
          <Card title="About">
            <Facts
              of={[
                ["Connection", <code key="id">{data.id}</code>],
                [
                  "System",
                  data.systemId && (
                    <Link className="link" href={path(namespace, "systems", data.systemId)}>
                      <SystemName system={data.systemId} />
                    </Link>
                  ),
                ],
                [
                  "Base URL",
                  url && (
                    <a className="link" href={url} target="_blank" rel="noreferrer">
                      {visible(data.baseUrl)}
                    </a>
                  ),
                ],
                ["Made", <Time key="made" value={data.createdAt} />],
                ["Changed", <Time key="changed" value={data.updatedAt} />],
              ]}
            />
          </Card>
          <AgentsCard connection={data} />
          {canEdit && <TestCard connection={data.id} />}
        </div>
        <div className="stack">
          <Uses connection={data.id} />
          <ChangesCard object={data.id} />
        </div>
      </div>
      {deleting && <DeleteDialog connection={data} onClose={() => setDeleting(false)} />}
    </>
  );
}

/** That pods were refused, although the credentials look good: the credentials' own rows cannot say it. */
function Refused({ refused }: { refused: NonNullable<Connection["refused"]> }) {
  return (
    <div className="note bad" role="note" aria-label="Refused by the system">
      <strong>The system refuses these credentials.</strong> {refusal(refused)} First <Time value={refused.since} />
      , last <Time value={refused.lastAt} />. Rotate the credential or connect again; this ends with the next
      request that is accepted.
    </div>
  );
}

function SystemName({ system }: { system: string }) {
  return useSystem(system).data?.name ?? system;
}

function CredentialRow({ part, connection }: { part: Part; connection: Connection }) {
  const { canEdit } = useOrganisation();
  const [rotating, setRotating] = useState(false);
  const authorisation = useAuthorisation(connection);
  const errors = part.credential?.errors;
  const plan = planOf(part.authSchemeConfig);
  const owner = useOwner(connection.id, "spec.credentials");
  const may = canEdit && !owner;
  const open = authorisation.now.state === "open";
  return (
    <div className="problem">
      <span className={`dot ${errors?.length ? "bad" : errors ? "good" : ""}`} />
      <div className="grow stack-s">
        <div>
          <strong>{nameOf(part.authSchemeConfig)}</strong> <span className="dim">{part.credential?.name}</span>
        </div>
        {errors?.map((each) => (
          <div key={each} className="note bad">
            {visible(each)}
          </div>
        ))}
        {!errors && <span className="dim">Not checked yet.</span>}
        {part.credential?.expiresAt && (
          <span className="dim">
            Expires <Time value={part.credential.expiresAt} />
          </span>
        )}
        {open && <div className="note">Go on in the window that has opened.</div>}
        {authorisation.now.state === "done" && <div className="note good">Connected.</div>}
        {authorisation.now.state === "failed" && <Failure error={authorisation.now.error} />}
      </div>
      {canEdit && owner && <span className="small dim">of {owner}</span>}
      {may && plan.authorise && (
        <button type="button" className="button small" onClick={() => void authorisation.begin(part)}>
          {part.credential?.data?.oauth2Token || !errors?.length ? "Connect again…" : "Connect…"}
        </button>
      )}
      {may && plan.fields.length > 0 && (
        <button type="button" className="button small" onClick={() => setRotating(true)}>
          Rotate…
        </button>
      )}
      {rotating && <RotateDialog part={part} connection={connection} onClose={() => setRotating(false)} />}
    </div>
  );
}

function RotateDialog({ part, connection, onClose }: { part: Part; connection: Connection; onClose: () => void }) {
  const [values, setValues] = useState<Record<string, string>>({});
  const rotation = useRotation(connection);
  const say = useToast();
  const plan = planOf(part.authSchemeConfig);
  const submit = () =>
    rotation.mutate(
      { part, credential: credentialOf(plan, values) },
      {
        onSuccess: () => {
          say("The new values are stored. Pods use them within seconds.");
          onClose();
        },
      },
    );
  return (
    <ActionDialog
      title={`Rotate a credential of ${connection.name}`}
      verb="Rotate"
      action={rotation}
      onSubmit={submit}
      onClose={onClose}
    >
      <p className="dim">The new values are stored and never shown again. The old ones are gone then.</p>
      <CredentialFields plan={plan} values={values} onChange={setValues} />
    </ActionDialog>
  );
}

function TestCard({ connection }: { connection: string }) {
  const test = useConnectionTest(connection);
  const [where, setWhere] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    test.mutate(where);
  };
  return (
    <Card title="Test">
      <form className="stack-s" onSubmit={submit}>
        <div className="row">
          <span className="method">GET</span>
          <input
            className="input grow mono"
            aria-label="Path to ask for"
            placeholder="/me"
            value={where}
            onChange={(event) => setWhere(event.target.value)}
          />
          <button type="submit" className="button" disabled={test.isPending}>
            {test.isPending ? "Testing…" : "Test"}
          </button>
        </div>
        <Failure error={test.error} />
        {test.data && <div className={test.data.ok ? "note good" : "note bad"}>{visible(test.data.message)}</div>}
      </form>
    </Card>
  );
}

function Uses({ connection }: { connection: string }) {
  const { namespace } = useOrganisation();
  const uses = useUses(connection);
  const data = uses.data;
  const count = (data?.templateCount ?? 0) + (data?.activationCount ?? 0);
  return (
    <Card title="Used by" flush aside={<span className="small dim">{data && count}</span>}>
      <Failure error={uses.error} />
      {uses.isPending && <Loading what="what uses it" />}
      {data && count === 0 && <div className="card-body dim">Nothing uses it.</div>}
      {data?.templates.map((each) => (
        <div key={each.connectionTemplateId} className="problem">
          <div className="grow">
            {each.projectId ? (
              <Link className="link" href={path(namespace, "projects", each.projectId)}>
                {each.projectName}
              </Link>
            ) : (
              "a project that is gone"
            )}{" "}
            <span className="dim">· {each.environmentName}</span>
          </div>
          <span className="dim">
            as <code>{each.name}</code>
          </span>
        </div>
      ))}
      {data?.activations.map((each) => (
        <div key={each.id} className="problem">
          <div className="grow">
            {each.userId ? (
              <Link className="link" href={path(namespace, "users", each.userId)}>
                {visible(each.displayName || each.externalId)}
              </Link>
            ) : (
              "everybody"
            )}{" "}
            <span className="dim">
              in {each.projectName} · {each.environmentName}
            </span>
          </div>
        </div>
      ))}
      {data && data.templates.length + data.activations.length < count && (
        <div className="card-body dim">The first of each are shown.</div>
      )}
    </Card>
  );
}

function DeleteDialog({ connection, onClose }: { connection: Connection; onClose: () => void }) {
  const { namespace } = useOrganisation();
  const [, navigate] = useLocation();
  const deletion = useConnectionDeletion(connection.id);
  const go = () =>
    deletion.mutate(undefined, {
      onSuccess: () => {
        onClose();
        navigate(`/${namespace}/connections`);
      },
    });
  return (
    <ActionDialog
      title={`Delete ${connection.name}`}
      verb="Delete"
      danger
      action={deletion}
      onSubmit={go}
      onClose={onClose}
    >
      <p>Its credentials are deleted too, and requests of code that uses it fail. This cannot be undone.</p>
    </ActionDialog>
  );
}
