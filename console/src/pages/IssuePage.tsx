import { useEffect, useState } from "react";
import { Link } from "wouter";
import { type IssueChange, type IssueDetail, useIssue, useIssueChange, useIssueReplay } from "../api/issues";
import { useProjects } from "../api/projects";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { Card, Facts, Failure, Loading, PageHead, Person, Pre, Time } from "../components/basics";
import { SelectField, TextField } from "../components/fields";
import { HoursChart, IssueBadge } from "../components/IssueParts";
import { RunBadge } from "../components/status";
import { useToast } from "../components/Toasts";
import { VersionLink } from "../components/VersionLink";
import { environmentOf } from "../lib/attention";
import { capped, counted, whatFailed } from "../lib/issues";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { inHours } from "../lib/time";

type Doing = "resolve" | "mute" | "assign" | "replay";

export default function IssuePage({ project, issue }: { project: string; issue: string }) {
  const { namespace } = useOrganisation();
  const found = useIssue(project, issue);
  const { data: projects = [] } = useProjects();
  if (found.isPending) return <Loading what="the issue" />;
  if (!found.data) return <Failure error={found.error} />;
  const detail = found.data;
  const place = environmentOf(projects, detail.environmentId);
  return (
    <>
      <PageHead
        title={`${detail.task}: ${visible(whatFailed(detail))}`}
        crumbs={
          <>
            <Link href={path(namespace, "issues")}>Issues</Link>
            <Link href={path(namespace, "projects", project)}>{place?.project.name ?? project}</Link>
            {place && <span>{place.environment.name}</span>}
          </>
        }
        sub={
          <>
            <IssueBadge state={detail.state} />
            <span>{counted(detail.count, "run")}</span>
            <span>
              last seen <Time value={detail.lastSeen} />
            </span>
          </>
        }
      >
        <Actions project={project} issue={detail} />
      </PageHead>
      <Failure error={found.error} />
      <StateNote issue={detail} />
      <section className="card card-body stack-s" aria-label="What failed">
        <strong>{visible(detail.type) || "No error reported"}</strong>
        {detail.message && <Pre tone="error">{detail.message}</Pre>}
      </section>
      <div className="split">
        <div className="stack">
          <About issue={detail} project={project} />
          {detail.users > 0 && <AffectedUsers issue={detail} namespace={namespace} project={project} />}
        </div>
        <LatestRuns issue={detail} namespace={namespace} project={project} />
      </div>
    </>
  );
}

function StateNote({ issue }: { issue: IssueDetail }) {
  const after = issue.resolvedAfter && <strong>{visible(issue.resolvedAfter.name)}</strong>;
  if (issue.state === "regressed") {
    return (
      <p className="note bad" role="note">
        Regressed
        {issue.regressedIn && (
          <>
            {" "}
            in <strong>{visible(issue.regressedIn.name)}</strong>
          </>
        )}
        . It was resolved {after && <>in the version after {after} </>}(<Time value={issue.changedAt} />
        ).
      </p>
    );
  }
  if (issue.state === "resolved") {
    return (
      <p className="note" role="note">
        Resolved {after && <>in the version after {after} </>}(<Time value={issue.changedAt} />
        ). It regresses if another run fails in the same way.
      </p>
    );
  }
  if (issue.state !== "muted") return null;
  return (
    <p className="note" role="note">
      Muted{" "}
      {issue.mutedUntil ? (
        <>
          until <Time value={issue.mutedUntil} />
        </>
      ) : (
        "indefinitely"
      )}
      : {visible(issue.reason)}
    </p>
  );
}

function About({ issue, project }: { issue: IssueDetail; project: string }) {
  const version = (of: IssueDetail["firstVersion"], at: string) => (
    <VersionLink key={at} project={project} environmentId={issue.environmentId} version={of} at={at} />
  );
  return (
    <Card title="About">
      <Facts
        of={[
          ["Issue", <code key="id">{issue.id}</code>],
          ["Last 24 hours", <HoursChart key="hours" hours={issue.hours} />],
          ["Kind", issue.kind],
          ["System", visible(issue.system)],
          ["First seen", <Time key="first" value={issue.firstSeen} />],
          ["Last seen", <Time key="last" value={issue.lastSeen} />],
          ["Since version", issue.firstVersion && version(issue.firstVersion, issue.firstSeen)],
          ["Last version", issue.lastVersion && version(issue.lastVersion, issue.lastSeen)],
          ["Affected users", issue.users ? capped(issue.users) : null],
          ["Affected keys", issue.keys ? capped(issue.keys) : null],
          ["Assignee", visible(issue.assignee)],
          [
            "Changed",
            issue.changedAt && (
              <span key="changed">
                <Time value={issue.changedAt} /> by <Person name={issue.changedBy ?? "an unknown user"} />
              </span>
            ),
          ],
        ]}
      />
    </Card>
  );
}

/** Who is hit: each leads to that user's runs of the issue. */
function AffectedUsers({ issue, namespace, project }: { issue: IssueDetail; namespace: string; project: string }) {
  const shown = issue.mostAffectedUsers;
  return (
    <Card
      title="Affected users"
      flush
      aside={
        issue.users > shown.length && (
          <span className="small dim">
            the {shown.length} with the most failed runs of {capped(issue.users)}
          </span>
        )
      }
    >
      {shown.map(({ user, count }) => (
        <Link
          key={user.externalId}
          className="problem"
          href={`${path(namespace, "runs")}?${new URLSearchParams({ project, issue: issue.id, user: user.externalId })}`}
        >
          <span className="grow cut">{visible(user.externalId)}</span>
          <span className="small dimmer">{counted(count, "run")}</span>
        </Link>
      ))}
    </Card>
  );
}

function LatestRuns({ issue, namespace, project }: { issue: IssueDetail; namespace: string; project: string }) {
  const href = `${path(namespace, "runs")}?${new URLSearchParams({ project, issue: issue.id })}`;
  return (
    <Card
      title="Latest runs"
      flush
      aside={
        <Link className="link small" href={href}>
          All {issue.count.toLocaleString()}
        </Link>
      }
    >
      {issue.latestRuns.length === 0 && <div className="card-body dim">The runs are no longer retained.</div>}
      {issue.latestRuns.map((run) => (
        <Link key={run.id} className="problem" href={path(namespace, "projects", project, "runs", run.id)}>
          <RunBadge status={run.status} />
          <span className="grow cut dim">
            {visible([run.user?.externalId, run.key, run.error?.message].filter(Boolean).join(" · "))}
          </span>
          {run.replayedBy && <span className="small dimmer">replayed</span>}
          <span className="small dimmer">
            <Time value={run.queuedAt} />
          </span>
        </Link>
      ))}
    </Card>
  );
}

function Actions({ project, issue }: { project: string; issue: IssueDetail }) {
  const { canEdit } = useOrganisation();
  const [doing, setDoing] = useState<Doing>();
  const change = useIssueChange(project, issue.id);
  const say = useToast();
  if (!canEdit) return null;
  const close = () => setDoing(undefined);
  const isLeft = issue.state === "open" || issue.state === "regressed";
  const reopen = () =>
    change.mutate(
      { state: "open" },
      { onSuccess: () => say("Issue reopened."), onError: (error) => say(error.message, "bad") },
    );
  return (
    <>
      <button type="button" className="button" onClick={() => setDoing("assign")}>
        Assign…
      </button>
      <button type="button" className="button" onClick={() => setDoing("replay")}>
        Replay…
      </button>
      {isLeft ? (
        <>
          <button type="button" className="button" onClick={() => setDoing("mute")}>
            Mute…
          </button>
          <button type="button" className="button primary" onClick={() => setDoing("resolve")}>
            Resolve…
          </button>
        </>
      ) : (
        <button type="button" className="button primary" disabled={change.isPending} onClick={reopen}>
          Reopen
        </button>
      )}
      {doing === "resolve" && <ResolveDialog project={project} issue={issue} onClose={close} />}
      {doing === "mute" && <MuteDialog project={project} issue={issue} onClose={close} />}
      {doing === "assign" && <AssignDialog project={project} issue={issue} onClose={close} />}
      {doing === "replay" && <ReplayDialog project={project} issue={issue} onClose={close} />}
    </>
  );
}

interface Asked {
  project: string;
  issue: IssueDetail;
  onClose: () => void;
}

/** Sends a change, and confirms it. */
function useDone({ project, issue, onClose }: Asked, done: string) {
  const action = useIssueChange(project, issue.id);
  const say = useToast();
  const send = (body: IssueChange) =>
    action.mutate(body, {
      onSuccess: () => say(done),
      close: onClose,
    });
  return { action, send };
}

function ResolveDialog(asked: Asked) {
  const { action, send } = useDone(asked, "Issue resolved.");
  const [next, setNext] = useState(false);
  return (
    <ActionDialog
      title="Resolve the issue"
      verb="Resolve"
      action={action}
      onSubmit={() => send({ state: "resolved", nextVersion: next })}
      onClose={asked.onClose}
    >
      <label className="row">
        <input type="radio" name="when" checked={!next} onChange={() => setNext(false)} />
        Now: the issue regresses if another run fails in the same way.
      </label>
      <label className="row">
        <input type="radio" name="when" checked={next} onChange={() => setNext(true)} />
        In the next version: the issue regresses if a newer version fails in the same way.
      </label>
    </ActionDialog>
  );
}

const HOURS: [string, string][] = [
  ["1", "for an hour"],
  ["24", "for a day"],
  ["168", "for a week"],
  ["", "indefinitely"],
];

function MuteDialog(asked: Asked) {
  const { action, send } = useDone(asked, "Issue muted.");
  const [hours, setHours] = useState("24");
  const [reason, setReason] = useState("");
  const mute = () =>
    send({
      state: "muted",
      reason,
      ...(hours ? { mutedUntil: inHours(Number(hours)) } : {}),
    });
  return (
    <ActionDialog
      title="Mute the issue"
      verb="Mute"
      action={action}
      disabled={!reason.trim()}
      onSubmit={mute}
      onClose={asked.onClose}
    >
      <p>A muted issue does not need attention, even if more runs fail.</p>
      <SelectField label="Duration" value={hours} onChange={setHours} options={HOURS} />
      <TextField label="Reason" required maxLength={500} value={reason} onChange={setReason} />
    </ActionDialog>
  );
}

function AssignDialog(asked: Asked) {
  const { action, send } = useDone(asked, "Saved.");
  const [assignee, setAssignee] = useState(asked.issue.assignee ?? "");
  return (
    <ActionDialog
      title="Assign the issue"
      verb="Save"
      action={action}
      onSubmit={() => send({ assignee })}
      onClose={asked.onClose}
    >
      <TextField
        label="Assignee"
        hint="A name or any text. Leave empty to unassign."
        maxLength={256}
        value={assignee}
        onChange={setAssignee}
      />
    </ActionDialog>
  );
}

/** Counts the runs of the issue, and those of the last hour, before either are replayed. */
function ReplayDialog({ project, issue, onClose }: Asked) {
  const [hour] = useState(() => inHours(-1));
  const all = useIssueReplay(project, issue.id);
  const lately = useIssueReplay(project, issue.id);
  const act = useIssueReplay(project, issue.id);
  const say = useToast();
  const [countAll, countLately] = [all.mutate, lately.mutate];
  useEffect(() => {
    countAll({ dryRun: true });
    countLately({ dryRun: true, start: hour });
  }, [countAll, countLately, hour]);
  const found = all.data;
  const replay = (start?: string) =>
    act.mutate(
      { dryRun: false, start },
      {
        onSuccess: (done) =>
          say(`${counted(done.count, "run")} queued.${done.more ? " More runs remain: replay again." : ""}`),
        close: onClose,
      },
    );
  return (
    <ActionDialog
      title="Replay the runs of the issue"
      verb={`Replay ${found?.count ?? ""}`}
      action={{ isPending: act.isPending, error: all.error ?? lately.error ?? act.error }}
      disabled={!found?.count}
      also={{
        verb: `Replay ${lately.data?.count ?? ""} of the last hour`,
        disabled: !lately.data?.count,
        onClick: () => replay(hour),
      }}
      onSubmit={() => replay()}
      onClose={onClose}
    >
      {all.isPending && <Loading what="the count" />}
      {found && (
        <p>
          <strong>{found.count.toLocaleString()}</strong> {found.count === 1 ? "run" : "runs"} can be replayed
          {lately.data && `, ${lately.data.count.toLocaleString()} of them from the last hour`}.
          {found.skipped > 0 &&
            ` ${found.skipped.toLocaleString()} are skipped: already replayed, or their input is not retained.`}
        </p>
      )}
    </ActionDialog>
  );
}
