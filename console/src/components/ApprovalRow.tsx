import { useState } from "react";
import { Link } from "wouter";
import { type Approval, useApprovalAnswer } from "../api/approvals";
import type { ProjectItem } from "../api/projects";
import { useOrganisation } from "../app/organisation";
import { environmentOf } from "../lib/attention";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { ActionDialog } from "./ActionDialog";
import { Json, Time } from "./basics";
import { TextField } from "./fields";
import { useToast } from "./Toasts";

/** What a run asks, with the buttons that answer it. */
export function ApprovalRow({ approval, projects }: { approval: Approval; projects: ProjectItem[] }) {
  const { namespace } = useOrganisation();
  const [approves, setApproves] = useState<boolean>();
  const place = environmentOf(projects, approval.environmentId);
  const { answer } = approval;
  return (
    <section className="problem" aria-label={`Approval ${visible(approval.title)}`}>
      <span className={`dot ${approval.state === "open" ? "warn" : "idle"}`} />
      <div className="grow stack-s">
        <strong>{visible(approval.title)}</strong>
        <div className="dim">
          {place ? `${place.project.name} · ${place.environment.name}` : approval.environmentId} ·{" "}
          <Link className="link" href={path(namespace, "projects", approval.projectId, "runs", approval.runId)}>
            {visible(approval.task)}
          </Link>{" "}
          · <Time value={approval.askedAt} />
        </div>
        <div className="dim small">
          {approval.state === "open" && (
            <>
              for {visible(approval.by.join(", ") || "editors of the project")}, until{" "}
              <Time value={approval.until} />
            </>
          )}
          {approval.state !== "open" && !answer && approval.state.replace("_", " ")}
          {answer && (
            <>
              {approval.state} by {visible(answer.name || answer.by)} <Time value={answer.at} />
              {answer.comment && `: ${visible(answer.comment)}`}
            </>
          )}
        </div>
        {approval.details !== undefined && approval.details !== null && <Json value={approval.details} />}
      </div>
      {approval.mayAnswer && (
        <div className="row">
          <button type="button" className="button small" onClick={() => setApproves(true)}>
            Approve…
          </button>
          <button type="button" className="button small quiet" onClick={() => setApproves(false)}>
            Reject…
          </button>
        </div>
      )}
      {approves !== undefined && (
        <AnswerDialog approval={approval} approves={approves} onClose={() => setApproves(undefined)} />
      )}
    </section>
  );
}

function AnswerDialog({
  approval,
  approves,
  onClose,
}: {
  approval: Approval;
  approves: boolean;
  onClose: () => void;
}) {
  const answer = useApprovalAnswer(approval);
  const say = useToast();
  const [comment, setComment] = useState("");
  const [text, setText] = useState("{}");
  const [error, setError] = useState<unknown>();
  const asksValues = approves && approval.form !== undefined && approval.form !== null;
  const send = () => {
    let values: Record<string, unknown> | undefined;
    try {
      values = asksValues ? JSON.parse(text) : undefined;
    } catch {
      setError(new Error("The values are not valid JSON."));
      return;
    }
    answer.mutate(
      { approved: approves, comment, values },
      {
        onSuccess: () => say(approves ? "Approved. The run continues." : "Rejected. The run continues."),
        onError: setError,
        close: onClose,
      },
    );
  };
  return (
    <ActionDialog
      title={visible(approval.title)}
      verb={approves ? "Approve" : "Reject"}
      danger={!approves}
      action={{ isPending: answer.isPending, error }}
      onSubmit={send}
      onClose={onClose}
    >
      <TextField label="Comment" value={comment} onChange={setComment} maxLength={1000} />
      {asksValues && (
        <>
          <div className="field">
            <label htmlFor="values">Values (JSON) that follow the form</label>
            <textarea
              id="values"
              className="input"
              rows={6}
              spellCheck={false}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          </div>
          <Json value={approval.form} />
        </>
      )}
    </ActionDialog>
  );
}
