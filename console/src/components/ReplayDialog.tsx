import { useState } from "react";
import { type RunDetail, useRunAction } from "../api/runs";
import { useOrganisation } from "../app/organisation";
import { useLeave } from "../lib/leaving";
import { path } from "../lib/links";
import { ActionDialog } from "./ActionDialog";
import { useToast } from "./Toasts";

/** Runs it again, with its own input or another one. */
export function ReplayDialog({ project, run, onClose }: { project: string; run: RunDetail; onClose: () => void }) {
  const { namespace } = useOrganisation();
  const leave = useLeave();
  const say = useToast();
  const action = useRunAction(project, run.id);
  const kept = run.input === undefined || run.input === null ? "" : JSON.stringify(run.input, null, 2);
  const [text, setText] = useState(kept);
  const [error, setError] = useState<unknown>();
  const replay = () => {
    let payload: unknown;
    try {
      payload = text === kept ? undefined : JSON.parse(text);
    } catch {
      setError(new Error("The payload is not valid JSON."));
      return;
    }
    action.mutate(
      { type: "replay", payload },
      {
        onError: setError,
        onSuccess: (made) => {
          say("The run is queued again.");
          if (made) leave(path(namespace, "projects", project, "runs", made.id));
        },
        close: onClose,
      },
    );
  };
  return (
    <ActionDialog
      title={`Replay ${run.task}`}
      verb="Replay"
      action={{ isPending: action.isPending, error }}
      onSubmit={replay}
      onClose={onClose}
    >
      <div className="field">
        <label htmlFor="payload">Payload (JSON). Without a change, the run gets its original input.</label>
        <textarea
          id="payload"
          className="input"
          rows={10}
          spellCheck={false}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </div>
    </ActionDialog>
  );
}
