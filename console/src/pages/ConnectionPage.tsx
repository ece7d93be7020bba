import { type FormEvent, useState } from "react";
import { Link } from "wouter";
import { type Connection, stateOf, useConnection, useRotation } from "../api/connections";
import { useOrganisation } from "../app/organisation";
import { Card, Facts, Failure, Loading, PageHead, Time } from "../components/basics";
import { Dialog } from "../components/Dialog";
import { useToast } from "../components/Toasts";
import { safeUrl } from "../lib/links";
import { useNow } from "../lib/time";
import { ConnectionBadge } from "./ConnectionsPage";

type Part = Connection["credentials"][number];

export default function ConnectionPage({ connection }: { connection: string }) {
  const { namespace } = useOrganisation();
  const found = useConnection(connection);
  const now = useNow();
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
      />
      <Failure error={found.error} />
      <div className="split">
        <Card title="About">
          <Facts
            of={[
              ["Connection", <code key="id">{data.id}</code>],
              ["System", data.systemId && <code>{data.systemId}</code>],
              [
                "Base URL",
                url && (
                  <a className="link" href={url} target="_blank" rel="noreferrer">
                    {data.baseUrl}
                  </a>
                ),
              ],
              ["Made", <Time key="made" value={data.createdAt} />],
              ["Changed", <Time key="changed" value={data.updatedAt} />],
            ]}
          />
        </Card>
        <Card title="Credentials" flush>
          {data.credentials.length === 0 && <div className="card-body dim">It has none.</div>}
          {data.credentials.map((each, at) => (
            <CredentialRow key={each.id ?? at} part={each} connection={data} />
          ))}
        </Card>
      </div>
    </>
  );
}

function CredentialRow({ part, connection }: { part: Part; connection: Connection }) {
  const { canEdit } = useOrganisation();
  const [rotating, setRotating] = useState(false);
  const errors = part.credential?.errors;
  return (
    <div className="problem">
      <span className={`dot ${errors?.length ? "bad" : errors ? "good" : ""}`} />
      <div className="grow stack-s">
        <div>
          <strong>{part.authSchemeConfig?.type ?? part.credential?.type ?? "credential"}</strong>{" "}
          <span className="dim">{part.credential?.name}</span>
        </div>
        {errors?.map((each) => (
          <div key={each} className="note bad">
            {each}
          </div>
        ))}
        {!errors && <span className="dim">Not checked yet.</span>}
        {part.credential?.expiresAt && (
          <span className="dim">
            Expires <Time value={part.credential.expiresAt} />
          </span>
        )}
      </div>
      {canEdit && part.credential?.type === "string" && (
        <button type="button" className="button small" onClick={() => setRotating(true)}>
          Rotate…
        </button>
      )}
      {rotating && <RotateDialog part={part} connection={connection} onClose={() => setRotating(false)} />}
    </div>
  );
}

function RotateDialog({ part, connection, onClose }: { part: Part; connection: Connection; onClose: () => void }) {
  const [value, setValue] = useState("");
  const rotation = useRotation(connection);
  const say = useToast();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    rotation.mutate(
      { credential: part, value },
      {
        onSuccess: () => {
          say("The new key is stored. Pods use it within seconds.");
          onClose();
        },
      },
    );
  };
  return (
    <Dialog
      title={`Rotate the key of ${connection.name}`}
      onClose={onClose}
      foot={
        <>
          <button type="button" className="button" onClick={onClose}>
            Close
          </button>
          <button type="submit" form="rotate" className="button primary" disabled={rotation.isPending}>
            Rotate
          </button>
        </>
      }
    >
      <form id="rotate" className="field" onSubmit={submit}>
        <label htmlFor="key">The new key. It is stored and never shown again.</label>
        <input
          id="key"
          className="input"
          type="password"
          autoComplete="off"
          required
          value={value}
          onChange={(event) => setValue(event.target.value)}
        />
      </form>
      <Failure error={rotation.error} />
    </Dialog>
  );
}
