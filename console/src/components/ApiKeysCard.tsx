import { useState } from "react";
import { type ApiKey, useApiKeys, useNewKey, useNewRole, useRevocation } from "../api/access";
import { useOrganisation } from "../app/organisation";
import { bindingOf } from "../lib/commands";
import { SOON_MS } from "../lib/connections";
import { inHours, useNow } from "../lib/time";
import { ActionDialog } from "./ActionDialog";
import { Badge, Card, Command, Empty, Facts, Failure, Loading, Time } from "./basics";
import { Dialog } from "./Dialog";
import { SelectField, TextField } from "./fields";
import { ROLES, RoleDialog, type RoleName } from "./RolesCard";
import { useToast } from "./Toasts";

/** The API keys of the organisation. */
export function ApiKeysCard() {
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

function KeyRow({ apiKey }: { apiKey: ApiKey }) {
  const { canAdminister } = useOrganisation();
  const now = useNow();
  const [asking, setAsking] = useState(false);
  const [assigning, setAssigning] = useState(false);
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
        <span>
          last used <Time value={apiKey.lastUsedAt} never="never or unknown" />
        </span>
        <span>{apiKey.expiresAt ? <>ends {<Time value={apiKey.expiresAt} />}</> : "has no end"}</span>
      </div>
      {canAdminister && (
        <div className="row">
          {apiKey.role === "none" && (
            <button type="button" className="button small" onClick={() => setAssigning(true)}>
              Assign a role…
            </button>
          )}
          <button type="button" className="button small quiet danger" onClick={() => setAsking(true)}>
            Revoke…
          </button>
        </div>
      )}
      {assigning && (
        <RoleDialog subject={{ kind: "User", name: apiKey.subject }} onClose={() => setAssigning(false)} />
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
      onSuccess: () => say(`The key of ${apiKey.user} is revoked.`),
      close: onClose,
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
      <p>Programs that use this key are refused immediately. This cannot be undone.</p>
    </ActionDialog>
  );
}

const LIVES: [string, string][] = [
  ["30", "30 days"],
  ["90", "90 days"],
  ["365", "a year"],
  ["", "no expiry"],
];

function NewKeyDialog({ onClose }: { onClose: () => void }) {
  const { namespace } = useOrganisation();
  const making = useNewKey();
  const assigning = useNewRole();
  const [role, setRole] = useState<RoleName | "">("viewer");
  const [groups, setGroups] = useState("");
  const [user, setUser] = useState("");
  const [days, setDays] = useState("90");
  const submit = () => {
    const expiresAt = days ? inHours(Number(days) * 24) : undefined;
    const named = groups.split(/[\s,;]+/).filter(Boolean);
    making.mutate(
      { user, groups: named, expiresAt },
      {
        onSuccess: (made) => {
          // The user may have a role from before.
          if (role && made.role === "none")
            assigning.mutate({ role, subject: { kind: "User", name: made.subject } });
        },
      },
    );
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
        <p className="note warn">Save it now: it is not shown again.</p>
        <Command>{made.key}</Command>
        <Facts
          of={[
            ["Send it as", <code key="header">X-API-Key</code>],
            ["Acts as", <code key="subject">{made.subject}</code>],
            ["Role", made.role === "none" ? (assigning.data?.role ?? "none yet") : made.role],
          ]}
        />
        <Failure error={assigning.error} />
        {made.role === "none" && !assigning.data && !assigning.isPending && (
          <>
            <p>
              The key has no permissions until its user has a role. Assign a role on this page, or bind a role of
              your own with kubectl:
            </p>
            <Command>{bindingOf(made.user, made.subject, namespace)}</Command>
          </>
        )}
      </Dialog>
    );
  }
  return (
    <ActionDialog title="New API key" verb="Create" action={making} onSubmit={submit} onClose={onClose}>
      <TextField
        label="The user that the key acts as, such as ci"
        required
        pattern="[A-Za-z0-9]([A-Za-z0-9._@\-]{0,126}[A-Za-z0-9])?"
        title="Letters, digits and . _ @ -"
        value={user}
        onChange={setUser}
      />
      <TextField
        label="Groups"
        required={false}
        hint="Separated by commas. Role bindings can refer to them."
        value={groups}
        onChange={setGroups}
      />
      <SelectField
        label="Role"
        value={role}
        onChange={(value) => setRole(value as RoleName | "")}
        options={[...ROLES, ["", "none: assign one later"]]}
        hint="A user who already has a role keeps it."
      />
      <SelectField label="Valid for" value={days} onChange={setDays} options={LIVES} />
    </ActionDialog>
  );
}
