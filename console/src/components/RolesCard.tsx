import { useState } from "react";
import { type NewRole, type RoleBinding, useNewRole, useRoleBindings, useRoleRemoval } from "../api/access";
import { useOrganisation } from "../app/organisation";
import { unbinding } from "../lib/commands";
import { shortName } from "../lib/text";
import { ActionDialog } from "./ActionDialog";
import { Card, Command, Empty, Failure, Loading, Time } from "./basics";
import { Dialog } from "./Dialog";
import { problemsOf, SelectField, TextField } from "./fields";
import { useToast } from "./Toasts";

export type RoleName = NewRole["role"];
export const ROLES: [RoleName, string][] = [
  ["viewer", "viewer: reads everything except secrets"],
  ["editor", "editor: also deploys and connects"],
  ["admin", "admin: also systems, keys and roles"],
];

/** The role bindings of the organisation's namespace. */
export function RolesCard() {
  const { namespace, canAdminister } = useOrganisation();
  const bindings = useRoleBindings();
  const [assigning, setAssigning] = useState(false);
  const items = bindings.data?.items ?? [];
  return (
    <Card
      title="Roles"
      flush
      aside={
        canAdminister ? (
          <button type="button" className="button small primary" onClick={() => setAssigning(true)}>
            Assign a role…
          </button>
        ) : (
          <span className="small dim">of this namespace</span>
        )
      }
    >
      <Failure error={bindings.error} />
      {bindings.isPending && <Loading what="roles" />}
      {bindings.data && items.length === 0 && (
        <Empty title="No roles are assigned here">Roles for all namespaces are not listed.</Empty>
      )}
      {items.map((each) => (
        <BindingRow key={each.id} binding={each} />
      ))}
      {items.length > 0 && (
        <div className="card-body stack-s">
          <span className="small dim">Cluster-wide roles are not listed. To see what a user may do:</span>
          <Command>{`kubectl auth can-i --list -n ${namespace} --as=USER`}</Command>
        </div>
      )}
      {assigning && <RoleDialog onClose={() => setAssigning(false)} />}
    </Card>
  );
}

const KINDS: [NewRole["subject"]["kind"], string][] = [
  ["User", "A person, or the user of an API key"],
  ["Group", "A group"],
  ["ServiceAccount", "A ServiceAccount, for programs in the cluster"],
];

/** Assigns a role to the given subject, or to one that the user enters. */
export function RoleDialog({ subject, onClose }: { subject?: NewRole["subject"]; onClose: () => void }) {
  const { namespace } = useOrganisation();
  const assigning = useNewRole();
  const say = useToast();
  const [kind, setKind] = useState<NewRole["subject"]["kind"]>("User");
  const [name, setName] = useState("");
  const [of, setOf] = useState("");
  const [role, setRole] = useState<RoleName>("viewer");
  const problems = problemsOf(assigning.error);
  const submit = () => {
    const machine = kind === "ServiceAccount" && of.trim() ? { namespace: of.trim() } : {};
    const to = subject ?? { kind, name: name.trim(), ...machine };
    assigning.mutate(
      { role, subject: to },
      {
        onSuccess: () => say(`Role ${role} assigned to ${shortName(to.name)}. It takes effect within seconds.`),
        close: onClose,
      },
    );
  };
  return (
    <ActionDialog
      title={subject ? `Assign a role to ${shortName(subject.name)}` : "Assign a role"}
      verb="Assign"
      action={assigning}
      onSubmit={submit}
      onClose={onClose}
    >
      {!subject && (
        <>
          <SelectField
            label="To"
            value={kind}
            onChange={(value) => setKind(value as NewRole["subject"]["kind"])}
            options={KINDS}
          />
          <TextField
            label="Name"
            required
            maxLength={253}
            hint={
              kind === "ServiceAccount"
                ? "The name of the ServiceAccount, such as ci"
                : "As Kubernetes knows it, with the prefix of the issuer, such as login:ann"
            }
            problem={problems.get("subject.name")}
            value={name}
            onChange={setName}
          />
          {kind === "ServiceAccount" && (
            <TextField
              label="Namespace"
              required={false}
              hint={`${namespace} when empty`}
              value={of}
              onChange={setOf}
            />
          )}
        </>
      )}
      <SelectField
        label="Role"
        value={role}
        onChange={(value) => setRole(value as RoleName)}
        options={ROLES}
        hint="You cannot assign a role that has more permissions than you."
      />
    </ActionDialog>
  );
}

function BindingRow({ binding }: { binding: RoleBinding }) {
  const { canAdminister, namespace } = useOrganisation();
  const [removing, setRemoving] = useState(false);
  return (
    <section className="problem" aria-label={`Role binding ${binding.name}`}>
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
      {canAdminister && (
        <button type="button" className="button small quiet danger" onClick={() => setRemoving(true)}>
          Remove…
        </button>
      )}
      {removing &&
        (binding.byRest ? (
          <RemovalDialog binding={binding} onClose={() => setRemoving(false)} />
        ) : (
          <Dialog
            title={`Remove the role binding ${binding.name}`}
            onClose={() => setRemoving(false)}
            foot={
              <button type="button" className="button" onClick={() => setRemoving(false)}>
                Close
              </button>
            }
          >
            <p>
              This role binding was not created by the console or REST. Remove it from the repository or tool that
              manages it, or delete it with kubectl:
            </p>
            <Command>{unbinding(binding.name, namespace)}</Command>
          </Dialog>
        ))}
    </section>
  );
}

function RemovalDialog({ binding, onClose }: { binding: RoleBinding; onClose: () => void }) {
  const removal = useRoleRemoval(binding.id);
  const say = useToast();
  const who = binding.subjects.map((each) => shortName(each.name)).join(", ");
  const submit = () =>
    removal.mutate(undefined, {
      onSuccess: () => say(`Role ${binding.role ?? binding.roleName} removed from ${who}.`),
      close: onClose,
    });
  return (
    <ActionDialog
      title={`Remove the role of ${who}`}
      verb="Remove"
      danger
      action={removal}
      onSubmit={submit}
      onClose={onClose}
    >
      <p>
        {who} loses the role {binding.role ?? binding.roleName} within seconds. Other roles are kept. If you remove
        your own role, only another administrator can restore it.
      </p>
    </ActionDialog>
  );
}
