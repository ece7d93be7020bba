import { useState } from "react";
import { Link } from "wouter";
import { useEnvironmentConfig, useStaticVariables, useStaticVariablesChange } from "../api/environments";
import { type Environment, type Project, useProject } from "../api/projects";
import { useVariablesSchema } from "../api/users";
import { useOrganisation } from "../app/organisation";
import { Card, Empty, Failure, Loading, PageHead } from "../components/basics";
import { OwnedNote } from "../components/Changes";
import { ResumeDialog, SuspendDialog } from "../components/DeployDialog";
import { EnvCard } from "../components/EnvCard";
import { CheckField, NumberField, problemsOf, TextField } from "../components/fields";
import { SaveForm } from "../components/SaveForm";
import { SchemaForm } from "../components/SchemaForm";
import { EnvironmentBadge } from "../components/status";
import { useToast } from "../components/Toasts";
import { path } from "../lib/links";
import { amountsOf, resourcesOf } from "../lib/resources";
import { changedValues, propertiesOf, type Schema, unsetNames } from "../lib/schema";

const MOST_REPLICAS = 50;
const IDLE_AFTER = "10m";
const QUANTITY = "[0-9]+(\\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?";

/** How an environment runs its code: pods, environment variables, and the variables of its code. */
export default function EnvironmentSettingsPage({
  project,
  environment,
}: {
  project: string;
  environment: string;
}) {
  const { namespace, canEdit } = useOrganisation();
  const found = useProject(project);
  const [doing, setDoing] = useState<"suspend" | "resume">();
  if (found.isPending) return <Loading what="the environment" />;
  if (!found.data) return <Failure error={found.error} />;
  const data = found.data;
  const open = data.environments.find((each) => each.name === environment);
  const settings = path(namespace, "projects", data.id, "settings");
  if (!open) {
    return (
      <Empty title={`The project has no environment “${environment}”`}>
        <Link className="link" href={settings}>
          Its environments
        </Link>
      </Empty>
    );
  }
  const close = () => setDoing(undefined);
  return (
    <>
      <PageHead
        title={`Settings of ${open.name}`}
        crumbs={
          <>
            <Link href={path(namespace, "projects")}>Projects</Link>
            <Link href={path(namespace, "projects", data.id)}>{data.name}</Link>
            <Link href={settings}>Settings</Link>
          </>
        }
        sub={<EnvironmentBadge environment={open} />}
      >
        {canEdit && open.status === "running" && (
          <button type="button" className="button" onClick={() => setDoing("suspend")}>
            Suspend…
          </button>
        )}
        {canEdit && open.status === "suspended" && open.deployedVersion && (
          <button type="button" className="button primary" onClick={() => setDoing("resume")}>
            Resume…
          </button>
        )}
      </PageHead>
      <Failure error={found.error} />
      <OwnedNote object={data.id} />
      <div className="split">
        <div className="stack">
          <PodsCard
            // The form resets when these fields change on the server. Other changes keep the input.
            key={JSON.stringify([open.config.deploymentSpec, open.config.image, open.config.scaling])}
            project={data}
            environment={open}
          />
          <VariablesCard project={data.id} environment={open} />
        </div>
        <EnvCard project={data} environment={open} />
      </div>
      {doing === "suspend" && <SuspendDialog environment={open} project={data} onClose={close} />}
      {doing === "resume" && open.deployedVersion && (
        <ResumeDialog environment={open} version={open.deployedVersion} project={data} onClose={close} />
      )}
    </>
  );
}

function PodsCard({ project, environment }: { project: Project; environment: Environment }) {
  const change = useEnvironmentConfig(project.id, environment.id);
  const say = useToast();
  const { deploymentSpec, image: stored, scaling } = environment.config;
  const before = amountsOf(deploymentSpec.resources);
  const [replicas, setReplicas] = useState<number | undefined>(deploymentSpec.replicas);
  const [amounts, setAmounts] = useState(before);
  const [image, setImage] = useState(stored ?? "");
  const [sleeps, setSleeps] = useState(scaling?.min === 0);
  const [idleAfter, setIdleAfter] = useState(scaling?.idleAfter ?? IDLE_AFTER);
  const isOther = sleeps !== (scaling?.min === 0) || (sleeps && idleAfter !== scaling?.idleAfter);
  const changes = {
    deploymentSpec: {
      ...(replicas !== deploymentSpec.replicas ? { replicas } : {}),
      ...(JSON.stringify(amounts) !== JSON.stringify(before) ? { resources: resourcesOf(amounts) } : {}),
    },
    ...(image.trim() !== (stored ?? "") ? { image: image.trim() } : {}),
    ...(isOther ? { scaling: sleeps ? { min: 0, idleAfter } : { min: 1 } } : {}),
  };
  const changed = Object.keys(changes.deploymentSpec).length > 0 || "image" in changes || isOther;
  const problems = problemsOf(change.error);
  const save = () =>
    change.mutate(changes, { onSuccess: () => say("Saved. Pods restart if the change needs it.") });
  const amount = (name: keyof typeof amounts, label: string, example: string) => (
    <TextField
      label={label}
      placeholder={example}
      pattern={QUANTITY}
      title="Such as 500m, 2 or 256Mi"
      value={amounts[name]}
      onChange={(value) => setAmounts({ ...amounts, [name]: value.trim() })}
    />
  );
  return (
    <Card title="Pods">
      <SaveForm verb="Save the pods" action={change} disabled={!changed || replicas === undefined} onSave={save}>
        <NumberField
          label="Replicas"
          min={0}
          max={MOST_REPLICAS}
          required
          hint="With 0, the environment has no pods: webhooks are refused and events wait."
          problem={problems.get("deploymentSpec.replicas")}
          value={replicas}
          onChange={setReplicas}
        />
        <CheckField
          label="Sleep while there is no work"
          hint="Then it has no pods. Webhooks, events, schedules and timers wake it."
          checked={sleeps}
          onChange={setSleeps}
        />
        {sleeps && (
          <TextField
            label="Sleep after"
            pattern="[1-9][0-9]{0,4}(s|m|h)"
            title="10s to 24h, such as 10m"
            hint="Time without work, 10s to 24h."
            problem={problems.get("scaling.idleAfter")}
            value={idleAfter}
            onChange={(value) => setIdleAfter(value.trim())}
          />
        )}
        <div className="pair">
          {amount("requestsCpu", "CPU request", "100m")}
          {amount("limitsCpu", "CPU limit", "1")}
          {amount("requestsMemory", "Memory request", "128Mi")}
          {amount("limitsMemory", "Memory limit", "512Mi")}
        </div>
        <TextField
          label="Image"
          required={false}
          maxLength={512}
          hint="A custom image that is based on the runtime image. Default: the image of the project, or of the platform."
          problem={problems.get("image")}
          value={image}
          onChange={setImage}
        />
      </SaveForm>
    </Card>
  );
}

/** The variables of the static activation, as a form of the project's schema. */
function VariablesCard({ project, environment }: { project: string; environment: Environment }) {
  const schema = useVariablesSchema(project);
  const stored = useStaticVariables(environment.id);
  return (
    <Card title="Variables">
      <p className="small dim">
        The values of <code>ctx.variables</code> in runs without a user. Each user has separate values.
      </p>
      <Failure error={schema.error ?? stored.error} />
      {(schema.isPending || stored.isPending) && <Loading what="the variables" />}
      {schema.data && stored.data && (
        <VariablesForm
          key={JSON.stringify(stored.data)}
          schema={schema.data as Schema}
          stored={stored.data}
          environment={environment}
        />
      )}
    </Card>
  );
}

function VariablesForm({
  schema,
  stored,
  environment,
}: {
  schema: Schema;
  stored: Record<string, unknown>;
  environment: Environment;
}) {
  const change = useStaticVariablesChange(environment.id);
  const say = useToast();
  const [values, setValues] = useState(stored);
  const changes = changedValues(stored, values);
  const unset = unsetNames(stored, values);
  if (propertiesOf(schema).length === 0) return <p className="note">The project's schema has no variables.</p>;
  return (
    <SaveForm
      verb="Save the variables of the code"
      action={change}
      disabled={Object.keys(changes).length + unset.length === 0}
      onSave={() =>
        change.mutate(
          { values: changes, unset },
          { onSuccess: () => say("Variables saved. Pods use them within seconds.") },
        )
      }
    >
      <SchemaForm schema={schema} values={values} problems={problemsOf(change.error)} onChange={setValues} />
    </SaveForm>
  );
}
