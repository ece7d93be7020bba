import { useState } from "react";
import { Link } from "wouter";
import {
  useEnvironmentDeletion,
  useNewEnvironment,
  useProjectDeletion,
  useProjectUpdate,
} from "../api/environments";
import { type Environment, type Project, useProject } from "../api/projects";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { Card, Failure, Loading, PageHead } from "../components/basics";
import { OwnedNote } from "../components/Changes";
import { CheckField, problemsOf, SelectField, TextField } from "../components/fields";
import { NotificationsCard } from "../components/NotificationsCard";
import { SaveForm } from "../components/SaveForm";
import { EnvironmentBadge } from "../components/status";
import { useToast } from "../components/Toasts";
import { useLeave } from "../lib/leaving";
import { path } from "../lib/links";

const NAME = "[a-z0-9]([\\-a-z0-9]*[a-z0-9])?";
const MOST_ENVIRONMENTS = 20;

/** The settings of a project: name, environments and notifications. */
export default function ProjectSettingsPage({ project }: { project: string }) {
  const { namespace, canEdit } = useOrganisation();
  const found = useProject(project);
  const [deleting, setDeleting] = useState(false);
  if (found.isPending) return <Loading what="the project" />;
  if (!found.data) return <Failure error={found.error} />;
  const data = found.data;
  return (
    <>
      <PageHead
        title={`Settings of ${data.name}`}
        crumbs={
          <>
            <Link href={`/${namespace}/projects`}>Projects</Link>
            <Link href={path(namespace, "projects", data.id)}>{data.name}</Link>
          </>
        }
      >
        {canEdit && (
          <button type="button" className="button danger" onClick={() => setDeleting(true)}>
            Delete the project…
          </button>
        )}
      </PageHead>
      <Failure error={found.error} />
      <OwnedNote object={data.id} />
      <div className="split">
        <div className="stack">
          <GeneralCard key={`${data.name}${JSON.stringify(data.settings)}`} project={data} />
          <EnvironmentsCard project={data} />
        </div>
        <NotificationsCard project={data} />
      </div>
      {deleting && <ProjectDeletionDialog project={data} onClose={() => setDeleting(false)} />}
    </>
  );
}

function GeneralCard({ project }: { project: Project }) {
  const update = useProjectUpdate(project.id);
  const say = useToast();
  const [name, setName] = useState(project.name);
  const [settings, setSettings] = useState(project.settings);
  const changed = name !== project.name || JSON.stringify(settings) !== JSON.stringify(project.settings);
  return (
    <Card title="General">
      <SaveForm
        verb="Save"
        action={update}
        disabled={!changed}
        onSave={() => update.mutate({ name, settings }, { onSuccess: () => say("Project saved.") })}
      >
        <TextField
          label="Name"
          required
          value={name}
          problem={problemsOf(update.error).get("name")}
          onChange={setName}
        />
        <CheckField
          label="Deploy file changes automatically"
          hint="To every environment with a deployed version."
          checked={settings.acceptCodeChangesAutomatically}
          onChange={(value) => setSettings({ ...settings, acceptCodeChangesAutomatically: value })}
        />
        <CheckField
          label="Keep the inputs of direct runs"
          hint="Required to replay direct runs. Runs of events always keep their inputs."
          checked={settings.keepInputs}
          onChange={(value) => setSettings({ ...settings, keepInputs: value })}
        />
      </SaveForm>
    </Card>
  );
}

function EnvironmentsCard({ project }: { project: Project }) {
  const { canEdit, namespace } = useOrganisation();
  const [making, setMaking] = useState(false);
  const [deleting, setDeleting] = useState<Environment>();
  const only = project.environments.length === 1;
  return (
    <Card
      title="Environments"
      flush
      aside={
        canEdit &&
        project.environments.length < MOST_ENVIRONMENTS && (
          <button type="button" className="button small primary" onClick={() => setMaking(true)}>
            New environment…
          </button>
        )
      }
    >
      {project.environments.map((each) => (
        <section key={each.id} className="problem" aria-label={`Environment ${each.name}`}>
          <div className="grow stack-s">
            <div className="row wrap">
              <Link
                className="link"
                href={path(namespace, "projects", project.id, "environments", each.name, "settings")}
              >
                {each.name}
              </Link>
              <EnvironmentBadge environment={each} />
            </div>
            <span className="small dim">
              {each.deployedVersion?.name ?? "nothing is deployed"} · replicas {each.config.deploymentSpec.replicas}
            </span>
          </div>
          {canEdit && (
            <button
              type="button"
              className="button small quiet danger"
              disabled={only}
              title={only ? "A project has at least one environment" : undefined}
              onClick={() => setDeleting(each)}
            >
              Delete…
            </button>
          )}
        </section>
      ))}
      {making && <NewEnvironmentDialog project={project} onClose={() => setMaking(false)} />}
      {deleting && (
        <EnvironmentDeletionDialog
          project={project}
          environment={deleting}
          onClose={() => setDeleting(undefined)}
        />
      )}
    </Card>
  );
}

function NewEnvironmentDialog({ project, onClose }: { project: Project; onClose: () => void }) {
  const making = useNewEnvironment(project.id);
  const say = useToast();
  const [name, setName] = useState("");
  const [from, setFrom] = useState("");
  const [systems, setSystems] = useState(true);
  const [variables, setVariables] = useState(true);
  const submit = () =>
    making.mutate(from ? { name, from, systems, variables } : { name }, {
      onSuccess: () => say(`Environment ${name} created. Deploy a version to start it.`),
      close: onClose,
    });
  const problems = problemsOf(making.error);
  return (
    <ActionDialog title="New environment" verb="Create" action={making} onSubmit={submit} onClose={onClose}>
      <TextField
        label="Name"
        required
        maxLength={40}
        pattern={NAME}
        title="Lower-case letters, digits and hyphens"
        hint="Lower-case letters, digits and hyphens, such as staging. It cannot be changed later."
        value={name}
        problem={problems.get("name") ?? problems.get("newEnvName")}
        onChange={setName}
      />
      <SelectField
        label="Copy the settings of"
        value={from}
        onChange={setFrom}
        options={[["", "none"], ...project.environments.map((each): [string, string] => [each.name, each.name])]}
      />
      {from && (
        <>
          <CheckField
            label="Systems, with the connections that all users share"
            checked={systems}
            onChange={setSystems}
          />
          <CheckField label="Variables" checked={variables} onChange={setVariables} />
          <p className="small dim">Activations of users are not copied.</p>
        </>
      )}
    </ActionDialog>
  );
}

function EnvironmentDeletionDialog({
  project,
  environment,
  onClose,
}: {
  project: Project;
  environment: Environment;
  onClose: () => void;
}) {
  const deletion = useEnvironmentDeletion(project.id);
  const say = useToast();
  const [name, setName] = useState("");
  const submit = () =>
    deletion.mutate(environment.id, {
      onSuccess: () => say(`Environment ${environment.name} deleted.`),
      close: onClose,
    });
  return (
    <ActionDialog
      title={`Delete the environment ${environment.name}`}
      verb="Delete"
      danger
      action={deletion}
      disabled={name !== environment.name}
      onSubmit={submit}
      onClose={onClose}
    >
      <p>This cannot be undone. It deletes:</p>
      <ul>
        <li>its pods and its URL: webhooks are refused immediately</li>
        <li>its connection templates, the activations of its users, and its notifications</li>
        <li>its queued events, dead letters and the state of its integrations, an hour later</li>
      </ul>
      <p>Connections, versions and the code are kept.</p>
      <TextField label={`Enter ${environment.name} to confirm`} value={name} onChange={setName} />
    </ActionDialog>
  );
}

function ProjectDeletionDialog({ project, onClose }: { project: Project; onClose: () => void }) {
  const { namespace } = useOrganisation();
  const leave = useLeave();
  const deletion = useProjectDeletion(project.id);
  const [name, setName] = useState("");
  const submit = () =>
    deletion.mutate(undefined, {
      onSuccess: () => leave(`/${namespace}/projects`),
      close: onClose,
    });
  return (
    <ActionDialog
      title={`Delete the project ${project.name}`}
      verb="Delete"
      danger
      action={deletion}
      disabled={name !== project.name}
      onSubmit={submit}
      onClose={onClose}
    >
      <p>
        This cannot be undone. All environments stop. The code, versions, templates, activations, notifications,
        runs and integration state are deleted. Systems and connections are kept.
      </p>
      <TextField label={`Enter ${project.name} to confirm`} value={name} onChange={setName} />
    </ActionDialog>
  );
}
