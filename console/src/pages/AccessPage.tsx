import { useState } from "react";
import { Link } from "wouter";
import {
  type ApiKey,
  type RoleBinding,
  useApiKeys,
  useNewKey,
  useRevocation,
  useRoleBindings,
} from "../api/access";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { Badge, Card, Command, Empty, Facts, Failure, Loading, PageHead, Time } from "../components/basics";
import { ChangesCard } from "../components/Changes";
import { Dialog } from "../components/Dialog";
import { useToast } from "../components/Toasts";
import { useNow } from "../lib/time";

export default function AccessPage() {
  const { namespace } = useOrganisation();
  return (
    <>
      <PageHead title="Access and changes" sub="Who may do what here, and who changed what">
        <Link className="button" href={`/${namespace}/notifications`}>
          Notification channels
        </Link>
      </PageHead>
      <Keys />
      <div className="split">
        <Roles />
        <ChangesCard />
      </div>
    </>
  );
}

function Keys() {
  const { canAdminister, id, namespace } = useOrganisation();
  const keys = useApiKeys();
  const [making, setMaking] = useState(false);
  const items = keys.data?.items ?? [];
  return (
    <Card
      title="API keys"
      flush
      aside={
        canAdminister && (
          <button type="button" className="button small primary" onClick={() => setMaking(true)}>
            New key…
          </button>
        )
      }
    >
      <Failure error={keys.error} />
      {keys.isPending && <Loading what="API keys" />}
      {keys.data && items.length === 0 && (
        <Empty
          title="No API key"
          commands={[
            `kubectl create token NAME -n ${namespace}`,
            `tieline-api create-key --organisation ${id} --user ci`,
          ]}
        >
          A key is for programs without a token of their own, such as a pipeline. ServiceAccounts need none.
        </Empty>
      )}
      {items.map((each) => (
        <KeyRow key={each.id} apiKey={each} />
      ))}
      {making && <NewKeyDialog onClose={() => setMaking(false)} />}
    </Card>
  );
}

const DAY_MS = 24 * 3600 * 1000;
const SOON_MS = 14 * DAY_MS;

function KeyRow({ apiKey }: { apiKey: ApiKey }) {
  const { canAdminister } = useOrganisation();
  const now = useNow();
  const [asking, setAsking] = useState(false);
  const ends = apiKey.expiresAt ? Date.parse(apiKey.expiresAt) : undefined;
  return (
    <section className="problem" aria-label={`API key of ${apiKey.user}`}>
      <div className="grow stack-s">
        <div className="row wrap">
          <strong>{apiKey.user}</strong>
          {apiKey.role === "none" ? (
            <Badge tone="warn">no role</Badge>
          ) : (
            <span className="badge plain">{apiKey.role}</span>
          )}
          {apiKey.groups.map((each) => (
            <span key={each} className="badge plain">
              group {each}
            </span>
          ))}
          {ends !== undefined && ends < now && <Badge tone="bad">expired</Badge>}
          {ends !== undefined && ends >= now && ends < now + SOON_MS && <Badge tone="warn">expires soon</Badge>}
        </div>
        <code className="dimmer">{apiKey.secretName}</code>
      </div>
      <div className="stack-s right-text small dim">
        <span>
          created <Time value={apiKey.createdAt} />
        </span>
        <span>{apiKey.expiresAt ? <>ends {<Time value={apiKey.expiresAt} />}</> : "has no end"}</span>
      </div>
      {canAdminister && (
        <button type="button" className="button small quiet danger" onClick={() => setAsking(true)}>
          Revoke…
        </button>
      )}
      {asking && <RevokeDialog apiKey={apiKey} onClose={() => setAsking(false)} />}
    </section>
  );
}

function RevokeDialog({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const revocation = useRevocation();
  const say = useToast();
  const revoke = () =>
    revocation.mutate(apiKey.id, {
      onSuccess: () => {
        say(`The key of ${apiKey.user} is revoked.`);
        onClose();
      },
    });
  return (
    <ActionDialog
      title={`Revoke the key of ${apiKey.user}`}
      verb="Revoke"
      danger
      action={revocation}
      onSubmit={revoke}
      onClose={onClose}
    >
      <p>Programs that use it are refused from now on. This cannot be undone.</p>
    </ActionDialog>
  );
}

const LIVES: [string, string][] = [
  ["30", "30 days"],
  ["90", "90 days"],
  ["365", "a year"],
  ["", "has no end"],
];

function NewKeyDialog({ onClose }: { onClose: () => void }) {
  const { namespace } = useOrganisation();
  const making = useNewKey();
  const [user, setUser] = useState("");
  const [days, setDays] = useState("90");
  const submit = () => {
    const expiresAt = days ? new Date(Date.now() + Number(days) * DAY_MS).toISOString() : undefined;
    making.mutate({ user, groups: [], expiresAt });
  };
  const made = making.data;
  if (made) {
    return (
      <Dialog
        title={`The key of ${made.user}`}
        wide
        onClose={onClose}
        foot={
          <button type="button" className="button" onClick={onClose}>
            I have stored it
          </button>
        }
      >
        <p className="note warn">Store it now: it is never shown again.</p>
        <Command>{made.key}</Command>
        <Facts
          of={[
            ["Send it as", <code key="header">X-API-Key</code>],
            ["Acts as", <code key="subject">{made.subject}</code>],
            ["Role", made.role === "none" ? "none yet" : made.role],
          ]}
        />
        {made.role === "none" && (
          <>
            <p>Give its user a role:</p>
            <Command>{`kubectl create rolebinding ${made.user.toLowerCase().replace(/[^a-z0-9.-]/g, "-")} -n ${namespace} --clusterrole=tieline-editor --user=${made.subject}`}</Command>
          </>
        )}
      </Dialog>
    );
  }
  return (
    <ActionDialog title="New API key" verb="Create" action={making} onSubmit={submit} onClose={onClose}>
      <div className="field">
        <label htmlFor="key-user">The user that it acts as, such as ci</label>
        <input
          id="key-user"
          className="input"
          required
          autoComplete="off"
          pattern="[A-Za-z0-9]([A-Za-z0-9._@\-]{0,126}[A-Za-z0-9])?"
          title="Letters, digits and . _ @ -"
          value={user}
          onChange={(event) => setUser(event.target.value)}
        />
      </div>
      <div className="field">
        <label htmlFor="key-life">How long it is valid</label>
        <select id="key-life" className="input" value={days} onChange={(event) => setDays(event.target.value)}>
          {LIVES.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </div>
    </ActionDialog>
  );
}

function Roles() {
  const { namespace } = useOrganisation();
  const bindings = useRoleBindings();
  const items = bindings.data?.items ?? [];
  return (
    <Card title="Roles" flush aside={<span className="small dim">of this namespace</span>}>
      <Failure error={bindings.error} />
      {bindings.isPending && <Loading what="roles" />}
      {bindings.data && items.length === 0 && (
        <Empty
          title="No role is given here"
          commands={[`kubectl create rolebinding ops -n ${namespace} --clusterrole=tieline-editor --group=ops`]}
        >
          Roles for all namespaces are not listed.
        </Empty>
      )}
      {items.map((each) => (
        <BindingRow key={each.id} binding={each} />
      ))}
      {items.length > 0 && (
        <div className="card-body stack-s">
          <span className="small dim">Roles for all namespaces are not listed. Ask what somebody may do:</span>
          <Command>{`kubectl auth can-i --list -n ${namespace} --as=USER`}</Command>
        </div>
      )}
    </Card>
  );
}

function BindingRow({ binding }: { binding: RoleBinding }) {
  return (
    <div className="problem">
      <div className="grow stack-s">
        {binding.subjects.map((each) => (
          <div key={`${each.kind}${each.namespace}${each.name}`} className="break">
            {each.name} <span className="dim small">{each.kind}</span>
          </div>
        ))}
        <span className="small dimmer break">{binding.name}</span>
      </div>
      <div className="stack-s right-text">
        {binding.role ? (
          <span className="badge plain info">{binding.role}</span>
        ) : (
          <span className="badge plain">{binding.roleName}</span>
        )}
        <span className="small dim">
          <Time value={binding.createdAt} />
        </span>
      </div>
    </div>
  );
}
