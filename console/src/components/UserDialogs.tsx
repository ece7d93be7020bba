import { useState } from "react";
import { useConnectionDeletion } from "../api/connections";
import type { ProjectItem } from "../api/projects";
import { useTemplates } from "../api/templates";
import {
  type Activation,
  type EndUser,
  useDeactivation,
  useNewActivation,
  useNewUser,
  useUserConnections,
  useUserDeletion,
  useVariablesSchema,
} from "../api/users";
import { useOrganisation } from "../app/organisation";
import { useLeave } from "../lib/leaving";
import { path } from "../lib/links";
import { changedValues, propertiesOf, type Schema } from "../lib/schema";
import { visible } from "../lib/text";
import { ActionDialog } from "./ActionDialog";
import { Loading } from "./basics";
import { problemsOf, SelectField, TextField } from "./fields";
import { SchemaForm } from "./SchemaForm";
import { useToast } from "./Toasts";

/** Creates an end user. */
export function NewUserDialog({ onClose }: { onClose: () => void }) {
  const { namespace } = useOrganisation();
  const leave = useLeave();
  const making = useNewUser();
  const [externalId, setExternalId] = useState("");
  const [displayName, setDisplayName] = useState("");
  const problems = problemsOf(making.error);
  const submit = () =>
    making.mutate(
      { externalId: externalId.trim(), displayName: displayName.trim() },
      {
        onSuccess: (made) => leave(path(namespace, "users", made.id)),
        close: onClose,
      },
    );
  return (
    <ActionDialog title="New user" verb="Create" action={making} onSubmit={submit} onClose={onClose}>
      <TextField
        label="ID in your application"
        required
        hint="It cannot be changed later."
        problem={problems.get("externalId")}
        value={externalId}
        onChange={setExternalId}
      />
      <TextField
        label="Name"
        required={false}
        problem={problems.get("displayName")}
        value={displayName}
        onChange={setDisplayName}
      />
    </ActionDialog>
  );
}

export function UserDeletionDialog({
  user,
  activations,
  onClose,
}: {
  user: EndUser;
  activations: number;
  onClose: () => void;
}) {
  const { namespace } = useOrganisation();
  const leave = useLeave();
  const deletion = useUserDeletion(user.id);
  const connections = useUserConnections(user.id);
  const submit = () =>
    deletion.mutate(undefined, {
      onSuccess: () => leave(`/${namespace}/users`),
      close: onClose,
    });
  return (
    <ActionDialog
      title={`Delete ${user.displayName || user.externalId}`}
      verb="Delete"
      danger
      action={deletion}
      onSubmit={submit}
      onClose={onClose}
    >
      <p>This cannot be undone. It deletes:</p>
      <ul>
        <li>
          {activations === 1 ? "one activation" : `${activations} activations`}, with their variables and state
        </li>
        <li>
          {connections.data?.length === 1 ? "one connection" : `${connections.data?.length ?? "the"} connections`},
          with the credentials
        </li>
      </ul>
      <p>Objects from Git or kubectl, and the run history, are kept.</p>
    </ActionDialog>
  );
}

/** Activates a user on an environment, with variables and existing connections. */
export function ActivationDialog({
  user,
  projects,
  active,
  onClose,
}: {
  user: EndUser;
  projects: ProjectItem[];
  /** The ids of environments where the user is active already. */
  active: string[];
  onClose: () => void;
}) {
  const activating = useNewActivation();
  const say = useToast();
  const places = projects.flatMap((project) =>
    project.environments
      .filter((each) => !active.includes(each.id))
      .map((each) => ({ id: each.id, project: project.id, name: `${project.name} · ${each.name}` })),
  );
  const [chosen, setChosen] = useState("");
  const place = places.find((each) => each.id === chosen) ?? places[0];
  const schema = useVariablesSchema(place?.project).data as Schema | undefined;
  const templates = useTemplates(place?.project, place?.id);
  const dynamic = (templates.data ?? []).filter((each) => each.dynamic);
  const connections = useUserConnections(user.id).data ?? [];
  const [values, setValues] = useState<Record<string, unknown>>({});
  const [picked, setPicked] = useState<Record<string, string>>({});
  const submit = () => {
    if (!place) return;
    const variables = changedValues({}, values);
    const given = dynamic.flatMap(({ connectionTemplateId }) => {
      const connection = picked[connectionTemplateId ?? ""];
      return connectionTemplateId && connection ? [{ connectionTemplateId, existingConnectionId: connection }] : [];
    });
    activating.mutate(
      {
        userId: user.id,
        environmentId: place.id,
        connections: given,
        ...(Object.keys(variables).length > 0 ? { dynamicVariables: variables } : {}),
      },
      {
        onSuccess: () => say(`User activated on ${place.name}.`),
        close: onClose,
      },
    );
  };
  const problems = new Map(
    [...problemsOf(activating.error)].map(([field, text]) => [field.replace(/^dynamicVariables\./, ""), text]),
  );
  return (
    <ActionDialog
      title={`Activate ${user.displayName || user.externalId}`}
      verb="Activate"
      action={{ isPending: activating.isPending, error: templates.error ?? activating.error }}
      disabled={!place}
      onSubmit={submit}
      onClose={onClose}
    >
      {places.length === 0 && <p className="note">The user is already active in all environments.</p>}
      {place && (
        <SelectField
          label="Environment"
          value={place.id}
          onChange={(value) => {
            setChosen(value);
            setValues({});
            setPicked({});
          }}
          options={places.map((each) => [each.id, each.name])}
        />
      )}
      {templates.isLoading && <Loading what="the systems" />}
      {dynamic.map((each) => (
        <SelectField
          key={each.connectionTemplateId}
          label={`Connection for ${each.name}`}
          value={picked[each.connectionTemplateId ?? ""] ?? ""}
          onChange={(value) => setPicked({ ...picked, [each.connectionTemplateId ?? ""]: value })}
          hint="A connection of this user. You can add it later."
          options={[
            ["", "none yet"],
            ...connections
              .filter((one) => one.systemId === each.id)
              .map((one): [string, string] => [one.id, visible(one.name)]),
          ]}
        />
      ))}
      {schema && propertiesOf(schema).length > 0 && (
        <fieldset className="group">
          <legend>Variables</legend>
          <SchemaForm schema={schema} values={values} problems={problems} onChange={setValues} />
        </fieldset>
      )}
    </ActionDialog>
  );
}

export function DeactivationDialog({
  activation,
  project,
  onClose,
}: {
  activation: Activation;
  project: string;
  onClose: () => void;
}) {
  const end = useDeactivation(activation.environment.id, activation.id);
  const say = useToast();
  const submit = () =>
    end.mutate(undefined, {
      onSuccess: () => say("User deactivated."),
      close: onClose,
    });
  return (
    <ActionDialog
      title={`Deactivate on ${project} · ${activation.environment.name}`}
      verb="Deactivate"
      danger
      action={end}
      onSubmit={submit}
      onClose={onClose}
    >
      <p>
        Code no longer runs for this user in this environment. The user's variables and state here are deleted. The
        connections are kept.
      </p>
    </ActionDialog>
  );
}

/** Deletes a connection of the user with its credentials. */
export function ConnectionDeletionDialog({
  connection,
  onClose,
}: {
  connection: { id: string; name: string };
  onClose: () => void;
}) {
  const deletion = useConnectionDeletion(connection.id);
  const say = useToast();
  const submit = () =>
    deletion.mutate(undefined, {
      onSuccess: () => say(`Connection ${connection.name} deleted.`),
      close: onClose,
    });
  return (
    <ActionDialog
      title={`Delete ${connection.name}`}
      verb="Delete"
      danger
      action={deletion}
      onSubmit={submit}
      onClose={onClose}
    >
      <p>
        Its credentials are deleted, and code that uses it can no longer send requests. This cannot be undone. The
        user can connect again.
      </p>
    </ActionDialog>
  );
}
