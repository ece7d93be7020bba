import { useState } from "react";
import { Link } from "wouter";
import { useLogs } from "../api/logs";
import { useProjects } from "../api/projects";
import { isOver, type RunAttempt, type RunDetail, type RunStep, useRun, useRunAction, useTrace } from "../api/runs";
import { useOrganisation } from "../app/organisation";
import { Card, Empty, Facts, Failure, Json, Loading, PageHead, Pre, Time } from "../components/basics";
import { LogLines } from "../components/LogLines";
import { ReplayDialog } from "../components/ReplayDialog";
import { ReplayFromStepDialog, stepName } from "../components/ReplayFromStepDialog";
import { RunProgress } from "../components/RunProgress";
import { SignalDialog } from "../components/SignalDialog";
import { RunBadge } from "../components/status";
import { Tags } from "../components/Tags";
import { useToast } from "../components/Toasts";
import { VersionLink } from "../components/VersionLink";
import { Waterfall } from "../components/Waterfall";
import { environmentOf } from "../lib/attention";
import { changedSearch } from "../lib/filters";
import { path } from "../lib/links";
import { waitsForText } from "../lib/progress";
import { asFilter, type Tag } from "../lib/tags";
import { visible } from "../lib/text";
import { between, duration } from "../lib/time";

export default function RunPage({ project, run }: { project: string; run: string }) {
  const { namespace } = useOrganisation();
  const found = useRun(project, run);
  const { data: projects = [] } = useProjects();
  if (found.isPending) return <Loading what="the run" />;
  if (!found.data) return <Failure error={found.error} />;
  const detail = found.data;
  const place = environmentOf(projects, detail.environmentId);
  return (
    <>
      <PageHead
        title={detail.task}
        crumbs={
          <>
            <Link href={`/${namespace}/runs`}>Runs</Link>
            <Link href={path(namespace, "projects", project)}>{place?.project.name ?? project}</Link>
            {place && <span>{place.environment.name}</span>}
          </>
        }
        sub={
          <>
            <RunBadge status={detail.status} />
            <span>{detail.kind}</span>
            <span>
              attempt {detail.attempt}
              {detail.attempts ? ` of ${detail.attempts}` : ""}
            </span>
            <Time value={detail.queuedAt} />
          </>
        }
      >
        <Actions project={project} run={detail} />
      </PageHead>
      <Failure error={found.error} />
      {detail.error && <WhyItFailed error={detail.error} />}
      <div className="split">
        <div className="stack">
          <About run={detail} project={project} namespace={namespace} />
          <Attempts run={detail} />
          <Steps run={detail} project={project} namespace={namespace} />
          <Input run={detail} />
        </div>
        <div className="stack">
          <Trace project={project} run={detail} />
          {place && <RunLogs project={project} environment={place.environment.name} run={detail} />}
        </div>
      </div>
    </>
  );
}

function Actions({ project, run }: { project: string; run: RunDetail }) {
  const { canEdit } = useOrganisation();
  const [replaying, setReplaying] = useState(false);
  const [signalling, setSignalling] = useState(false);
  const action = useRunAction(project, run.id);
  const say = useToast();
  if (!canEdit) return null;
  const act = (type: "cancel" | "discard", done: string) =>
    action.mutate({ type }, { onSuccess: () => say(done), onError: (error) => say(error.message, "bad") });
  return (
    <>
      {run.status === "dead" && !run.discardedAt && !run.replayedBy && (
        <button
          type="button"
          className="button"
          disabled={action.isPending}
          onClick={() => act("discard", "The dead letter is discarded. The run stays in the history.")}
        >
          Discard
        </button>
      )}
      {isOver(run.status) ? (
        run.canReplay && (
          <button type="button" className="button primary" onClick={() => setReplaying(true)}>
            Replay…
          </button>
        )
      ) : (
        <>
          {(run.kind === "event" || run.kind === "webhook") && (
            <button type="button" className="button" onClick={() => setSignalling(true)}>
              Send signal…
            </button>
          )}
          <button
            type="button"
            className="button danger"
            disabled={action.isPending}
            onClick={() => act("cancel", "Cancelling the run.")}
          >
            Cancel
          </button>
        </>
      )}
      {signalling && <SignalDialog project={project} run={run} onClose={() => setSignalling(false)} />}
      {replaying && <ReplayDialog project={project} run={run} onClose={() => setReplaying(false)} />}
    </>
  );
}

function WhyItFailed({ error }: { error: NonNullable<RunDetail["error"]> }) {
  return (
    <section className="card card-body stack-s" aria-label="Why it failed">
      <strong>{visible(error.type)}</strong>
      <Pre tone="error">{error.message}</Pre>
      {error.upstream && (
        <>
          <h2>
            {visible(error.upstream.system) || "The other system"} answered {error.upstream.status}
          </h2>
          <Pre>{error.upstream.body || "(an empty body)"}</Pre>
        </>
      )}
    </section>
  );
}

function About({ run, project, namespace }: { run: RunDetail; project: string; namespace: string }) {
  const linked = (id: string | null | undefined) =>
    id ? (
      <Link className="link mono" href={path(namespace, "projects", project, "runs", id)}>
        {id}
      </Link>
    ) : null;
  const runsOf = (what: "user" | "key", value: string) => (
    <Link className="link" href={`${path(namespace, "runs")}?${changedSearch("", { [what]: value })}`}>
      {visible(value)}
    </Link>
  );
  const hrefOf = (tag: Tag) => `${path(namespace, "runs")}?${changedSearch("", { tag: asFilter(tag) })}`;
  return (
    <Card title="About">
      <Facts
        of={[
          ["Run", <code key="id">{run.id}</code>],
          ["User", run.user && runsOf("user", run.user.externalId)],
          [
            "Issue",
            run.issueId && (
              <Link
                key="issue"
                className="link mono"
                href={path(namespace, "projects", project, "issues", run.issueId)}
              >
                {run.issueId}
              </Link>
            ),
          ],
          [
            "Version",
            run.version && (
              <VersionLink
                key="version"
                project={project}
                environmentId={run.environmentId}
                version={run.version}
                at={run.queuedAt}
              />
            ),
          ],
          ["Key", run.key && runsOf("key", run.key)],
          ["Tags", run.tags.length > 0 && <Tags tags={run.tags} hrefOf={hrefOf} />],
          ["Progress", run.progress && <RunProgress key="progress" run={run} />],
          ["Queued", <Time key="q" value={run.queuedAt} />],
          ["Started", run.startedAt && <Time value={run.startedAt} />],
          ["Took", run.startedAt && run.endedAt ? duration(between(run.startedAt, run.endedAt)) : null],
          ["Waits for", waitsForText(run)],
          ["Waits behind", linked(run.waitsBehind)],
          ["Next attempt", run.nextAttemptAt && <Time value={run.nextAttemptAt} />],
          ["Discarded", run.discardedAt && <Time value={run.discardedAt} />],
          ["Replay of", linked(run.replayOf)],
          ["Replayed by", linked(run.replayedBy)],
          ["Parent", linked(run.parent)],
        ]}
      />
    </Card>
  );
}

function Attempts({ run }: { run: RunDetail }) {
  return (
    <Card
      title="Attempts"
      flush
      aside={<span className="dim small">{run.attemptHistory.length + (run.attemptsLeftOut ?? 0)}</span>}
    >
      {run.attemptHistory.length === 0 && <div className="card-body dim">No attempt has started yet.</div>}
      {run.attemptHistory.map((each) => (
        <Attempt key={each.attempt} attempt={each} />
      ))}
    </Card>
  );
}

function Attempt({ attempt }: { attempt: RunAttempt }) {
  return (
    <div className="problem">
      <span className="dim">{attempt.attempt}</span>
      <div className="grow stack-s">
        <div className="row wrap">
          <RunBadge status={attempt.status} />
          {attempt.startedAt && <Time value={attempt.startedAt} />}
          {attempt.startedAt && attempt.endedAt && (
            <span className="dim">{duration(between(attempt.startedAt, attempt.endedAt))}</span>
          )}
        </div>
        {attempt.error && (
          <span className="dim small" style={{ overflowWrap: "anywhere" }}>
            {visible(`${attempt.error.type}: ${attempt.error.message}`)}
            {attempt.error.upstream && ` (the other system answered ${attempt.error.upstream.status})`}
          </span>
        )}
      </div>
    </div>
  );
}

function Steps({ run, project, namespace }: { run: RunDetail; project: string; namespace: string }) {
  const { canEdit } = useOrganisation();
  const [first, setFirst] = useState<RunStep>();
  if (run.steps.length === 0) return null;
  const canReplay = canEdit && run.canReplay && (run.status === "succeeded" || run.status === "dead");
  return (
    <Card title="Steps" flush>
      {run.steps.map((each) => (
        <div key={`${each.name}-${each.occurrence}`} className="problem">
          <span className={`dot ${each.error ? "bad" : each.recorded ? "good" : "idle"}`} />
          <div className="grow">
            {visible(each.name)}
            {each.occurrence > 1 && <span className="dimmer"> #{each.occurrence}</span>}
            {each.error && <div className="dim small">{visible(each.error)}</div>}
            {each.approval && <Approval approval={each.approval} />}
            {each.child && (
              <div className="small">
                <Link className="link mono" href={path(namespace, "projects", project, "runs", each.child)}>
                  {each.child}
                </Link>
              </div>
            )}
          </div>
          <span className="dim small">{duration(between(each.startedAt, each.endedAt))}</span>
          {canReplay && (
            <button
              type="button"
              className="button small"
              aria-label={`Replay from here… ${visible(stepName(each))}`}
              onClick={() => setFirst(each)}
            >
              Replay from here…
            </button>
          )}
        </div>
      ))}
      {first && (
        <ReplayFromStepDialog project={project} run={run} step={first} onClose={() => setFirst(undefined)} />
      )}
    </Card>
  );
}

function Approval({ approval }: { approval: NonNullable<RunStep["approval"]> }) {
  return (
    <div className="dim small">
      {approval.state === "timed_out" ? "timed out" : approval.state}
      {approval.answeredBy && ` by ${visible(approval.answeredBy)} `}
      {approval.answeredAt && <Time value={approval.answeredAt} />}
      {approval.comment && `: ${visible(approval.comment)}`}
      {approval.state === "open" && <code> tieline approvals show {visible(approval.id)}</code>}
    </div>
  );
}

function Input({ run }: { run: RunDetail }) {
  const kept = run.input !== undefined && run.input !== null;
  return (
    <Card title="Input" aside={run.inputContentType && <span className="dim small">{run.inputContentType}</span>}>
      <div className="stack-s">
        {run.request && (
          <div className="row">
            <span className="method">{run.request.method}</span>
            <code className="cut">{visible(run.request.path)}</code>
          </div>
        )}
        {kept && <Json value={run.input} />}
        {!kept && run.inputBase64 && <Pre>{run.inputBase64}</Pre>}
        {!kept && !run.inputBase64 && (
          <p className="dim">
            The input is not kept. A project keeps the inputs of its direct runs where its setting keepInputs is
            true.
          </p>
        )}
        {run.inputTruncated && <p className="note warn">Only the beginning is shown.</p>}
      </div>
    </Card>
  );
}

function Trace({ project, run }: { project: string; run: RunDetail }) {
  const traced = run.attemptHistory.filter((each) => each.traceId);
  const [attempt, setAttempt] = useState<number>();
  const id = traced.find((each) => each.attempt === attempt)?.traceId ?? run.traceId;
  const trace = useTrace(project, id);
  return (
    <Card
      title="Trace"
      flush
      aside={
        <>
          {traced.length > 1 && (
            <select
              className="input small"
              aria-label="Attempt"
              value={attempt ?? traced.at(-1)?.attempt}
              onChange={(event) => setAttempt(Number(event.target.value))}
            >
              {traced.map((each) => (
                <option key={each.attempt} value={each.attempt}>
                  attempt {each.attempt}
                </option>
              ))}
            </select>
          )}
          {id && <code className="dimmer">{id}</code>}
        </>
      }
    >
      {!id && <div className="card-body dim">This run has no trace yet.</div>}
      {id && trace.isPending && <Loading what="the trace" />}
      {trace.error && <div className="card-body dim">{trace.error.message}</div>}
      {trace.data && <Waterfall spans={trace.data.spans} />}
    </Card>
  );
}

const MOST_LINES = 200;

function RunLogs({ project, environment, run }: { project: string; environment: string; run: RunDetail }) {
  const logs = useLogs(
    { project, environment, search: run.id, start: run.queuedAt },
    { live: !isOver(run.status), first: MOST_LINES },
  );
  const lines = [...(logs.data?.logs ?? [])].reverse();
  return (
    <Card title="Logs" flush>
      {logs.isPending && <Loading what="the logs" />}
      {logs.error && (
        <div className="card-body">
          <Failure error={logs.error} />
        </div>
      )}
      {logs.data && lines.length === 0 && (
        <Empty title="No log lines">The current pods have written no log lines for this run.</Empty>
      )}
      <section className="spans" tabIndex={0} aria-label="Lines of this run">
        <LogLines lines={lines} />
      </section>
    </Card>
  );
}
