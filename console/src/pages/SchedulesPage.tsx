import { useState } from "react";
import { Link } from "wouter";
import { useProjects } from "../api/projects";
import { type Schedule, useScheduleAction, useSchedules } from "../api/schedules";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { Badge, Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { TextField } from "../components/fields";
import { PlaceChoice, Typed } from "../components/filters";
import { RunBadge } from "../components/status";
import { useToast } from "../components/Toasts";
import { useFilters } from "../lib/filters";
import { path } from "../lib/links";
import { visible } from "../lib/text";

/** The schedules of all projects, sorted by next run. */
export default function SchedulesPage() {
  const [filters, change] = useFilters(["search", "project", "environment"] as const);
  const projects = useProjects();
  const schedules = useSchedules(filters);
  const items = schedules.data?.pages.flatMap((each) => each.items) ?? [];
  const total = schedules.data?.pages[0]?.totalCount;
  const filtered = Boolean(filters.search || filters.project || filters.environment);
  return (
    <>
      <PageHead title="Schedules" sub={total === undefined ? undefined : `${total} · the next run first`} />
      <search className="filters">
        <Typed
          name="Search by name"
          type="search"
          value={filters.search}
          onChange={(search) => change({ search })}
        />
        <PlaceChoice projects={projects.data ?? []} filters={filters} change={change} />
      </search>
      <Failure error={schedules.error} />
      <div className="card">
        {schedules.isPending && <Loading what="schedules" />}
        {schedules.data && items.length === 0 && (
          <Empty
            title={filtered ? "No schedules match these filters" : "No schedules"}
            commands={filtered ? [] : ['@integration.schedule("every-hour", "0 * * * *")']}
          >
            {filtered ? undefined : "No deployed code defines a schedule. A decorator makes a function one:"}
          </Empty>
        )}
        {items.map((each) => (
          <ScheduleRow key={each.id} schedule={each} />
        ))}
        {schedules.hasNextPage && (
          <button type="button" className="button quiet" onClick={() => void schedules.fetchNextPage()}>
            More
          </button>
        )}
      </div>
    </>
  );
}

function ScheduleRow({ schedule }: { schedule: Schedule }) {
  const { canEdit, namespace } = useOrganisation();
  const action = useScheduleAction(schedule);
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
    <section className="problem" aria-label={`Schedule ${schedule.name} in ${schedule.environmentName}`}>
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
            <Link className="link" href={path(namespace, "projects", schedule.projectId)}>
              {visible(schedule.projectName)}
            </Link>{" "}
            · {schedule.environmentName}
          </span>
          {!schedule.paused && (
            <span>
              next <Time value={schedule.nextRun} never="not due" />
            </span>
          )}
          <span>
            last <Time value={schedule.lastRun} />
          </span>
          {schedule.lastRunStatus && schedule.lastRunId && (
            <Link
              href={path(namespace, "projects", schedule.projectId, "runs", schedule.lastRunId)}
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
      {running && <RunNowDialog schedule={schedule} onClose={() => setRunning(false)} />}
    </section>
  );
}

function RunNowDialog({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  const action = useScheduleAction(schedule);
  const [user, setUser] = useState("");
  const say = useToast();
  const run = () =>
    action.mutate(
      { type: "run", user: user.trim() || undefined },
      {
        onSuccess: () => say(`${schedule.name} is asked to run now.`),
        close: onClose,
      },
    );
  return (
    <ActionDialog title={`Run ${schedule.name} now`} verb="Run" action={action} onSubmit={run} onClose={onClose}>
      {schedule.activations === "users" && (
        <TextField label="Only for this user" hint="Default: all activated users" value={user} onChange={setUser} />
      )}
      {schedule.activations !== "users" && <p>It runs once, in addition to its due times.</p>}
    </ActionDialog>
  );
}
