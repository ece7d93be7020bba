import { useState } from "react";
import {
  type Environment,
  type EnvironmentAction,
  type Project,
  useEnvironmentAction,
  useVersionFiles,
  type Version,
} from "../api/projects";
import { ActionDialog } from "./ActionDialog";
import { Failure, Loading } from "./basics";
import { Diff } from "./Diff";
import { TextField } from "./fields";
import { useToast } from "./Toasts";

const CURRENT = "current";
const MOST_MESSAGE = 256;

/** Deploys the current files or a version, after showing what changes. */
export function DeployDialog({
  environment,
  project,
  versions,
  from,
  to,
  onClose,
}: {
  environment: Environment;
  project: Project;
  versions: Version[];
  /** The environment whose version is promoted. */
  from?: Environment;
  /** The version that is rolled back to. */
  to?: { id: string; name: string };
  onClose: () => void;
}) {
  const given = from?.deployedVersion ?? to;
  const [chosen, setChosen] = useState(given?.id ?? CURRENT);
  const [message, setMessage] = useState(from ? `promoted from ${from.name}` : "");
  const common = { environment: environment.id, message: message.trim() || undefined };
  const action: EnvironmentAction =
    chosen === CURRENT ? { type: "deploy", ...common } : { type: "deployVersion", version: chosen, ...common };
  const [verb, title] = from
    ? ["Promote", `Promote ${from.name} to ${environment.name}`]
    : to
      ? ["Roll back", `Roll back ${environment.name}`]
      : ["Deploy", `Deploy to ${environment.name}`];
  return (
    <EnvironmentDialog title={title} verb={verb} action={action} project={project} onClose={onClose}>
      <div className="field">
        <label htmlFor="version">What</label>
        <select id="version" className="input" value={chosen} onChange={(event) => setChosen(event.target.value)}>
          <option value={CURRENT}>The current files</option>
          {given && !versions.some((each) => each.id === given.id) && (
            <option value={given.id}>{given.name}</option>
          )}
          {versions.map((each) => (
            <option key={each.id} value={each.id}>
              {each.name} ({each.state})
            </option>
          ))}
        </select>
      </div>
      <TextField
        label="Message"
        required={false}
        maxLength={MOST_MESSAGE}
        placeholder="Reason for this deploy"
        value={message}
        onChange={setMessage}
      />
      <Changes project={project} environment={environment} chosen={chosen} />
    </EnvironmentDialog>
  );
}

function Changes({ project, environment, chosen }: { project: Project; environment: Environment; chosen: string }) {
  const before = useVersionFiles(project.id, environment.deployedVersion?.id);
  const after = useVersionFiles(project.id, chosen === CURRENT ? undefined : chosen);
  const old = environment.deployedVersion ? before.data?.files : [];
  const young = chosen === CURRENT ? project.currentFiles.files : after.data?.files;
  return (
    <>
      <Failure error={before.error ?? after.error} />
      {old && young ? (
        <Diff before={old} after={young} />
      ) : (
        !(before.error ?? after.error) && <Loading what="the changes" />
      )}
    </>
  );
}

export function SuspendDialog({
  environment,
  project,
  onClose,
}: {
  environment: Environment;
  project: Project;
  onClose: () => void;
}) {
  return (
    <EnvironmentDialog
      title={`Suspend ${environment.name}`}
      verb="Suspend"
      action={{ type: "suspend", environment: environment.id }}
      project={project}
      onClose={onClose}
    >
      <p>Its pods stop. Webhooks are refused and schedules do not run until it is resumed.</p>
    </EnvironmentDialog>
  );
}

/** Starts a suspended environment again, with the version that it had. */
export function ResumeDialog({
  environment,
  version,
  project,
  onClose,
}: {
  environment: Environment;
  version: { id: string; name: string };
  project: Project;
  onClose: () => void;
}) {
  return (
    <EnvironmentDialog
      title={`Resume ${environment.name}`}
      verb="Resume"
      action={{ type: "deployVersion", environment: environment.id, version: version.id }}
      project={project}
      onClose={onClose}
    >
      <p>
        Its pods start again with {version.name}. Events that came meanwhile run then; due times of schedules that
        have passed do not.
      </p>
    </EnvironmentDialog>
  );
}

function EnvironmentDialog({
  title,
  verb,
  action,
  project,
  onClose,
  children,
}: {
  title: string;
  verb: string;
  action: EnvironmentAction;
  project: Project;
  onClose: () => void;
  children: React.ReactNode;
}) {
  const act = useEnvironmentAction(project.id);
  const say = useToast();
  const go = () =>
    act.mutate(action, {
      onSuccess: () => say(`${verb}: accepted. The page shows how it goes.`),
      close: onClose,
    });
  return (
    <ActionDialog
      title={title}
      verb={verb}
      working="Working…"
      danger={action.type === "suspend"}
      wide
      action={act}
      onSubmit={go}
      onClose={onClose}
    >
      {children}
    </ActionDialog>
  );
}
