import { useState } from "react";
import { type RunDetail, useRunAction } from "../api/runs";
import { ActionDialog } from "./ActionDialog";
import { useToast } from "./Toasts";

/** Sends a signal to a run, which gets it once its code waits for one of this name. */
export function SignalDialog({ project, run, onClose }: { project: string; run: RunDetail; onClose: () => void }) {
  const say = useToast();
  const action = useRunAction(project, run.id);
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const [error, setError] = useState<unknown>();
  const send = () => {
    let payload: unknown;
    try {
      payload = text.trim() === "" ? null : JSON.parse(text);
    } catch {
      setError(new Error("The payload is not valid JSON."));
      return;
    }
    action.mutate(
      { type: "signal", name: name.trim(), payload },
      { onError: setError, onSuccess: () => say("The signal is sent."), close: onClose },
    );
  };
  return (
    <ActionDialog
      title={`Send a signal to ${run.task}`}
      verb="Send"
      action={{ isPending: action.isPending, error }}
      onSubmit={send}
      onClose={onClose}
    >
      <div className="field">
        <label htmlFor="signal-name">Name, as the code waits for it</label>
        <input
          id="signal-name"
          className="input"
          required
          pattern="[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}"
          title="Letters, digits, -, _ and ., a letter or digit first"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </div>
      <div className="field">
        <label htmlFor="signal-payload">Payload (JSON, may be empty)</label>
        <textarea
          id="signal-payload"
          className="input"
          rows={6}
          spellCheck={false}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </div>
    </ActionDialog>
  );
}
