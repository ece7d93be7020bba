import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { useOwner } from "../api/access";
import { useAuthorisation } from "../api/authorise";
import type { Schemas } from "../api/client";
import {
  type Connection,
  type Part,
  useConnection,
  useConnectionDeletion,
  useConnectionTest,
  useRotation,
  useUses,
  useVariables,
} from "../api/connections";
import { useSystem } from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { AgentsCard } from "../components/AgentsCard";
import { Card, Facts, Failure, Loading, PageHead, Pre, Time } from "../components/basics";
import { ChangesCard, OwnedNote } from "../components/Changes";
import { CredentialFields } from "../components/CredentialFields";
import { SelectField } from "../components/fields";
import { InputFields } from "../components/InputFields";
import { useToast } from "../components/Toasts";
import { refusal, stateOf } from "../lib/connections";
import { credentialOf, nameOf, planOf } from "../lib/credentials";
import { inputsOf, labelOf, valuesOf, variablesOf } from "../lib/inputs";
import { useLeave } from "../lib/leaving";
import { path, safeUrl } from "../lib/links";
import { visible } from "../lib/text";
import { inHours, useNow } from "../lib/time";
import { ConnectionBadge } from "./ConnectionsPage";

export default function ConnectionPage({ connection }: { connection: string }) {
  const { namespace, canEdit } = useOrganisation();
  const found = useConnection(connection);
  const now = useNow();
  const [deleting, setDeleting] = useState(false);
  const check = useConnectionTest(connection);
  if (found.isPending) return <Loading what="the connection" />;
  if (!found.data) return <Failure error={found.error} />;
  const data = found.data;
  const url = safeUrl(data.baseUrl);
  return (
    <>
      {canEdit && data.systemId && data.state === "not_checked" && (
        <Check connection={data} system={data.systemId} />
      )}
      <PageHead
        title={data.name}
        crumbs={<Link href={`/${namespace}/connections`}>Connections</Link>}
        sub={<State connection={data} now={now} />}
      >
        {canEdit && (
          <>
            <button
              type="button"
              className="button primary"
              disabled={check.isPending}
              onClick={() => check.mutate("")}
            >
              {check.isPending ? "Checking…" : "Check now"}
            </button>
            <button type="button" className="button danger" onClick={() => setDeleting(true)}>
              Delete…
            </button>
          </>
        )}
      </PageHead>
      <Failure error={found.error ?? check.error} />
      {check.data && <Answered result={check.data} />}
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
          {data.systemId && <InputsCard connection={data} system={data.systemId} />}
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
                [
                  "Last success",
                  <Time key="success" value={data.lastSuccessAt} never="never with these credentials" />,
                ],
                ["Last refusal", data.lastRefusal && <LastRefusal connection={data} />],
                ...data.expires.map((each): [string, ReactNode] => [
                  `${WORDS[each.what]} expires`,
                  <Time key={`${each.credentialId}${each.what}`} value={each.at} />,
                ]),
                ["Made", <Time key="made" value={data.createdAt} />],
                ["Changed", <Time key="changed" value={data.updatedAt} />],
              ]}
            />
          </Card>
          <AgentsCard connection={data} />
          {canEdit && <TestCard connection={data} />}
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

function State({ connection, now }: { connection: Connection; now: number }) {
  return (
    <>
      <ConnectionBadge state={stateOf(connection, now).state} />
      <span>
        {connection.lastSuccessAt ? (
          <>
            last success <Time value={connection.lastSuccessAt} />
          </>
        ) : (
          "no request has succeeded yet"
        )}
      </span>
    </>
  );
}

/** Asks the system once about new credentials, where it says how: only then it is known whether they work. */
function Check({ connection, system }: { connection: Connection; system: string }) {
  const { mutate } = useConnectionTest(connection.id);
  const hasCheck = Boolean(useSystem(system).data?.check);
  const asked = useRef("");
  useEffect(() => {
    if (!hasCheck || asked.current === connection.updatedAt) return;
    asked.current = connection.updatedAt;
    mutate("");
  }, [hasCheck, connection.updatedAt, mutate]);
  return null;
}

const WORDS = { credential: "Credential", token: "Token", certificate: "Certificate" } as const;

/** The last refusal, and what the system said. */
function LastRefusal({ connection }: { connection: Connection }) {
  const last = connection.lastRefusal;
  if (!last) return null;
  return (
    <>
      <Time value={last.lastAt} /> with {last.status}
      {last.said && <>: “{visible(last.said)}”</>}
      {last.acceptedAt && (
        <span className="dim">
          {" "}
          · accepted again <Time value={last.acceptedAt} />
        </span>
      )}
    </>
  );
}

/** That pods were refused, although the credentials look good: the credentials' own rows cannot say it. */
function Refused({ refused }: { refused: NonNullable<Connection["refused"]> }) {
  return (
    <div className="note bad" role="note" aria-label="Refused by the system">
      <strong>The system refuses these credentials.</strong> {refusal(refused)} First <Time value={refused.since} />
      , last <Time value={refused.lastAt} />. Rotate the credential or connect again; this ends with new
      credentials, or the next request that is accepted.
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
      <span className={`dot ${errors?.length ? "bad" : connection.state === "works" ? "good" : ""}`} />
      <div className="grow stack-s">
        <div>
          <strong>{nameOf(part.authSchemeConfig)}</strong> <span className="dim">{part.credential?.name}</span>
        </div>
        {errors?.map((each) => (
          <div key={each} className="note bad">
            {visible(each)}
          </div>
        ))}
        {part.credential?.warnings?.map((each) => (
          <div key={each} className="note warn">
            {visible(each)}
          </div>
        ))}
        {connection.state === "not_authorised" && part.credential?.type === "none" && (
          <span className="dim">
            {plan.authorise ? "Nobody has signed in yet." : "It has not been entered yet."}
          </span>
        )}
        {part.credential?.expiresAt && (
          <span className="dim">
            Expires <Time value={part.credential.expiresAt} />
          </span>
        )}
        {part.credential?.secret && <ValuesIn secret={part.credential.secret} />}
        {open && <div className="note">Continue in the window that opened.</div>}
        {authorisation.now.state === "done" && <Connected connection={connection} />}
        {authorisation.now.state === "failed" && <Failure error={authorisation.now.error} />}
      </div>
      {canEdit && owner && <span className="small dim">of {owner}</span>}
      {may && plan.authorise && (
        <button type="button" className="button small" onClick={() => void authorisation.begin(part)}>
          {part.credential?.data?.oauth2Token || !errors?.length ? "Connect again…" : "Connect…"}
        </button>
      )}
      {may && plan.fields.length > 0 && !part.credential?.secret && (
        <button type="button" className="button small" onClick={() => setRotating(true)}>
          Rotate…
        </button>
      )}
      {rotating && <RotateDialog part={part} connection={connection} onClose={() => setRotating(false)} />}
    </div>
  );
}

/** The Secret of values that this page cannot rotate. */
function ValuesIn({ secret }: { secret: Schemas["CredentialSecret"] }) {
  if (!secret.managedBy) {
    return (
      <span className="dim">
        The values come from the Secret <code>{visible(secret.name)}</code>, which does not exist.
      </span>
    );
  }
  return (
    <span className="dim">
      The values are in the Secret <code>{visible(secret.name)}</code>, managed by {visible(secret.managedBy)}.
      Rotate them there: pods use the new values within seconds.
    </span>
  );
}

function Connected({ connection }: { connection: Connection }) {
  const hasCheck = Boolean(useSystem(connection.systemId ?? "").data?.check);
  if (connection.state === "works")
    return <div className="note good">Connected. The system accepts the credentials.</div>;
  if (connection.state !== "not_checked") return null;
  if (hasCheck) return <div className="note">Checking the credentials with the system…</div>;
  return <div className="note good">Connected. No request has used the credentials yet.</div>;
}

/** Which shop, or which tenant, the connection is for. */
function InputsCard({ connection, system }: { connection: Connection; system: string }) {
  const { canEdit } = useOrganisation();
  const inputs = inputsOf(useSystem(system).data);
  const owner = useOwner(connection.id, "spec.variables");
  const [changing, setChanging] = useState(false);
  if (inputs.length === 0) return null;
  const values = valuesOf(inputs, connection.variables);
  return (
    <Card
      title="Address"
      aside={
        canEdit &&
        (owner ? (
          <span className="small dim">of {owner}</span>
        ) : (
          <button type="button" className="button small" onClick={() => setChanging(true)}>
            Change…
          </button>
        ))
      }
    >
      <Facts
        of={inputs.map((each) => [
          labelOf(each),
          values[each.name] ? visible(`${values[each.name]}${each.suffix ?? ""}`) : "not set",
        ])}
      />
      {changing && <InputsDialog connection={connection} inputs={inputs} onClose={() => setChanging(false)} />}
    </Card>
  );
}

function InputsDialog({
  connection,
  inputs,
  onClose,
}: {
  connection: Connection;
  inputs: ReturnType<typeof inputsOf>;
  onClose: () => void;
}) {
  const [values, setValues] = useState(valuesOf(inputs, connection.variables));
  const change = useVariables(connection.id);
  const signsIn = connection.credentials.some((each) => planOf(each.authSchemeConfig).authorise);
  const submit = () => change.mutate(variablesOf(inputs, values, connection.variables), { close: onClose });
  return (
    <ActionDialog
      title={`Change the address of ${connection.name}`}
      verb="Save"
      action={change}
      onSubmit={submit}
      onClose={onClose}
    >
      {signsIn && <p className="dim">With another address, you have to connect again.</p>}
      <InputFields inputs={inputs} values={values} onChange={setValues} />
    </ActionDialog>
  );
}

const KEEPS: [string, string][] = [
  ["1", "are accepted for a day"],
  ["7", "are accepted for 7 days"],
  ["30", "are accepted for 30 days"],
  ["", "are refused at once"],
];

function RotateDialog({ part, connection, onClose }: { part: Part; connection: Connection; onClose: () => void }) {
  const [values, setValues] = useState<Record<string, string>>({});
  const rotation = useRotation(connection);
  const say = useToast();
  const plan = planOf(part.authSchemeConfig);
  // Several credentials of one signature scheme are alternatives: webhooks are accepted during the rotation.
  const rolls = part.authSchemeConfig?.type === "hmac" && Boolean(part.authSchemeConfigId);
  const [days, setDays] = useState(rolls ? "7" : "");
  const keepUntil = days ? inHours(Number(days) * 24) : undefined;
  const submit = () =>
    rotation.mutate(
      { part, credential: credentialOf(plan, values), keepUntil },
      {
        onSuccess: () => say("The new values are saved. Pods use them within seconds."),
        close: onClose,
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
      <p className="dim">The new values replace the old ones and are not shown again.</p>
      <CredentialFields plan={plan} values={values} onChange={setValues} />
      {rolls && (
        <SelectField
          label="Webhooks signed with the old secret"
          value={days}
          onChange={setDays}
          options={KEEPS}
          hint="Remove the old secret at the sender before then."
        />
      )}
    </ActionDialog>
  );
}

/** What the system answered to a check or a test. */
function Answered({ result }: { result: Schemas["ConnectionTestResult"] }) {
  return (
    <div className={result.ok ? "note good" : "note bad"} role="status">
      {visible(result.message)}
      {result.said && <Pre>{result.said}</Pre>}
    </div>
  );
}

function TestCard({ connection }: { connection: Connection }) {
  const test = useConnectionTest(connection.id);
  const check = useSystem(connection.systemId ?? "").data?.check;
  const [where, setWhere] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    test.mutate(where);
  };
  return (
    <Card title="Test">
      <form className="stack-s" onSubmit={submit}>
        <div className="row">
          <span className="method">{where ? "GET" : (check?.method ?? "GET")}</span>
          <input
            className="input grow mono"
            aria-label="Path to request"
            placeholder={check?.path ?? "/me"}
            value={where}
            onChange={(event) => setWhere(event.target.value)}
          />
          <button type="submit" className="button" disabled={test.isPending}>
            {test.isPending ? "Testing…" : "Test"}
          </button>
        </div>
        <Failure error={test.error} />
        {test.data && <Answered result={test.data} />}
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
              "a deleted project"
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
  const leave = useLeave();
  const deletion = useConnectionDeletion(connection.id);
  const go = () =>
    deletion.mutate(undefined, {
      onSuccess: () => leave(`/${namespace}/connections`),
      close: onClose,
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
