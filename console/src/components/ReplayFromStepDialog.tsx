import { useState } from "react";
import { type RunDetail, type RunStep, useRunAction } from "../api/runs";
import { useOrganisation } from "../app/organisation";
import { useLeave } from "../lib/leaving";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { ActionDialog } from "./ActionDialog";
import { useToast } from "./Toasts";

/** A step as the command line takes it. */
export function stepName(step: Pick<RunStep, "name" | "occurrence">): string {
  return step.occurrence > 1 ? `${step.name}#${step.occurrence}` : step.name;
}

/** Runs it again from a step on, with the recorded results of the steps before it. */
export function ReplayFromStepDialog({
  project,
  run,
  step,
  onClose,
}: {
  project: string;
  run: RunDetail;
  step: RunStep;
  onClose: () => void;
}) {
  const { namespace } = useOrganisation();
  const leave = useLeave();
  const say = useToast();
  const action = useRunAction(project, run.id);
  const [error, setError] = useState<unknown>();
  const replay = () =>
    action.mutate(
      { type: "replay", fromStep: { name: step.name, occurrence: step.occurrence } },
      {
        onError: setError,
        onSuccess: (made) => {
          say("The run is queued again.");
          if (made) leave(path(namespace, "projects", project, "runs", made.id));
        },
        close: onClose,
      },
    );
  return (
    <ActionDialog
      title={`Replay from ${visible(stepName(step))}`}
      verb="Replay"
      action={{ isPending: action.isPending, error }}
      onSubmit={replay}
      onClose={onClose}
    >
      <p>
        A new run gets the input of this one and the recorded results of the steps before{" "}
        <strong>{visible(stepName(step))}</strong>. It does this step and the ones after it again, with the code
        that is deployed now.
      </p>
    </ActionDialog>
  );
}
