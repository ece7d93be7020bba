import { useState } from "react";
import { Link } from "wouter";
import { useProjects } from "../api/projects";
import { type Schedule, useScheduleAction, useSchedules } from "../api/schedules";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { Badge, Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { RunBadge } from "../components/status";
import { useToast } from "../components/Toasts";
import { useFilters } from "../lib/filters";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { Choice } from "./RunsPage";

export default function SchedulesPage() {
  const [filters, change] = useFilters(["project", "environment"] as const);
  const projects = useProjects();
  const project = projects.data?.find((each) => each.id === filters.project) ?? projects.data?.[0];
  const environment =
    project?.environments.find((each) => each.name === filters.environment) ?? project?.environments[0];
  const schedules = useSchedules(environment?.id);
  if (projects.isPending) return <Loading what="projects" />;
  if (!project || !environment)
    return <Empty title="No project yet">Its schedules appear here when it is deployed.</Empty>;
  return (
    <>
      <PageHead title="Schedules" sub={`${project.name} · ${environment.name}`} />
      <search className="filters">
        <Choice
          name="Project"
          value={project.id}
          options={(projects.data ?? []).map((each) => [each.id, each.name])}
          onChange={(value) => change({ project: value, environment: "" })}
        />
        <Choice
          name="Environment"
          value={environment.name}
          options={project.environments.map((each) => [each.name, each.name])}
          onChange={(value) => change({ project: project.id, environment: value })}
        />
      </search>
      <Failure error={schedules.error} />
      <div className="card">
        {schedules.isPending && <Loading what="schedules" />}
        {schedules.data?.length === 0 && (
          <Empty title="No schedule" commands={['@integration.schedule("every-hour", "0 * * * *")']}>
            The code of this environment has none. A function becomes one by its decorator:
          </Empty>
        )}
        {schedules.data?.map((each) => (
          <ScheduleRow key={each.id} schedule={each} environment={environment.id} project={project.id} />
        ))}
      </div>
    </>
  );
}

function ScheduleRow({
  schedule,
  environment,
  project,
}: {
  schedule: Schedule;
  environment: string;
  project: string;
}) {
  const { canEdit, namespace } = useOrganisation();
  const action = useScheduleAction(environment, schedule.id);
  const [running, setRunning] = useState(false);
  const say = useToast();
  const pause = () =>
    action.mutate(
      { type: "pause", paused: !schedule.paused },
      {
        onSuccess: () => say(schedule.paused ? `${schedule.name} runs again.` : `${schedule.name} is paused.`),
        onError: (error) => say(error.message, "bad"),
      },
    );
  return (
    <section className="problem" aria-label={`Schedule ${schedule.name}`}>
      <div className="grow stack-s">
        <div className="row wrap">
          <strong>{schedule.name}</strong>
          <code className="dim">{visible(schedule.schedule)}</code>
          <span className="dimmer small">{visible(schedule.timezone)}</span>
          {schedule.paused && <Badge tone="warn">paused</Badge>}
          {schedule.missed && <Badge tone="bad">missed</Badge>}
        </div>
        <div className="row wrap dim">
          <span>
            next <Time value={schedule.nextRun} never="not due" />
          </span>
          <span>
            last <Time value={schedule.lastRun} />
          </span>
          {schedule.lastRunStatus && schedule.lastRunId && (
            <Link
              href={path(namespace, "projects", project, "runs", schedule.lastRunId)}
              aria-label={`The last run of ${schedule.name}`}
            >
              <RunBadge status={schedule.lastRunStatus} />
            </Link>
          )}
          {schedule.missed && (
            <span>
              was due <Time value={schedule.missed} />
            </span>
          )}
        </div>
      </div>
      {canEdit && (
        <div className="row">
          <button type="button" className="button small" onClick={() => setRunning(true)}>
            Run now…
          </button>
          <button type="button" className="button small quiet" disabled={action.isPending} onClick={pause}>
            {schedule.paused ? "Resume" : "Pause"}
          </button>
        </div>
      )}
      {running && <RunNowDialog schedule={schedule} environment={environment} onClose={() => setRunning(false)} />}
    </section>
  );
}

function RunNowDialog({
  schedule,
  environment,
  onClose,
}: {
  schedule: Schedule;
  environment: string;
  onClose: () => void;
}) {
  const action = useScheduleAction(environment, schedule.id);
  const [user, setUser] = useState("");
  const say = useToast();
  const run = () =>
    action.mutate(
      { type: "run", user: user.trim() || undefined },
      {
        onSuccess: () => {
          say(`${schedule.name} is asked to run now.`);
          onClose();
        },
      },
    );
  return (
    <ActionDialog title={`Run ${schedule.name} now`} verb="Run" action={action} onSubmit={run} onClose={onClose}>
      {schedule.activations === "users" && (
        <div className="field">
          <label htmlFor="run-user">For this user alone (empty: for all who are activated)</label>
          <input id="run-user" className="input" value={user} onChange={(event) => setUser(event.target.value)} />
        </div>
      )}
      {schedule.activations !== "users" && <p>It runs once, beside its due times.</p>}
    </ActionDialog>
  );
}
