import { useEffect } from "react";
import { type Selection, useManyRuns } from "../api/runs";
import { ActionDialog } from "./ActionDialog";
import { Loading } from "./basics";
import { useToast } from "./Toasts";

const WORDS = { replay: "Replay", cancel: "Cancel", discard: "Discard" };

/** Counts the selected runs before anything happens to them. */
export function ManyRunsDialog({
  verb,
  selections,
  onDone,
  onClose,
}: {
  verb: "replay" | "cancel" | "discard";
  selections: Selection[];
  onDone?: () => void;
  onClose: () => void;
}) {
  const count = useManyRuns();
  const act = useManyRuns();
  const say = useToast();
  const { mutate } = count;
  useEffect(() => mutate({ verb, selections, dryRun: true }), [mutate, verb, selections]);
  const confirm = () =>
    act.mutate(
      { verb, selections, dryRun: false },
      {
        onSuccess: (done) => {
          say(
            `${done.count} runs: ${verb} was accepted.${done.more ? " There are more: do it again for the rest." : ""}`,
          );
          onDone?.();
        },
        close: onClose,
      },
    );
  const found = count.data;
  return (
    <ActionDialog
      title={`${WORDS[verb]} the runs that match`}
      verb={`${WORDS[verb]} ${found?.count ?? ""}`}
      danger={verb !== "replay"}
      action={{ isPending: act.isPending, error: count.error ?? act.error }}
      disabled={!found?.count}
      onSubmit={confirm}
      onClose={onClose}
    >
      {count.isPending && <Loading what="the count" />}
      {found && (
        <p>
          <strong>{found.count}</strong> {found.count === 1 ? "run matches" : "runs match"}
          {found.more ? " in this round, and there are more" : ""}.
          {found.skipped > 0 && ` ${found.skipped} are left out: they cannot be acted on.`}
        </p>
      )}
    </ActionDialog>
  );
}
