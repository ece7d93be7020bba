import { useEffect } from "react";
import { type RunFilters, useManyRuns } from "../api/runs";
import { Failure, Loading } from "./basics";
import { Dialog } from "./Dialog";
import { useToast } from "./Toasts";

const WORDS = { replay: "Replay", cancel: "Cancel", discard: "Discard" };

/** Counts the runs that the filters choose before anything happens to them. */
export function ManyRunsDialog({
  verb,
  filters,
  onClose,
}: {
  verb: "replay" | "cancel" | "discard";
  filters: RunFilters;
  onClose: () => void;
}) {
  const count = useManyRuns(filters.project);
  const act = useManyRuns(filters.project);
  const say = useToast();
  const { mutate } = count;
  useEffect(() => mutate({ verb, filters, dryRun: true }), [mutate, verb, filters]);
  // What is acted on may leave the page, and this dialog with it: the promise goes on, callbacks of `mutate` do not.
  const confirm = async () => {
    const done = await act.mutateAsync({ verb, filters, dryRun: false }).catch(() => undefined);
    if (!done) return;
    say(
      `${done.count} runs: ${verb} was accepted.${done.more ? " There are more: do it again for the rest." : ""}`,
    );
    onClose();
  };
  const found = count.data;
  return (
    <Dialog
      title={`${WORDS[verb]} the runs that match`}
      onClose={onClose}
      foot={
        <>
          <button type="button" className="button" onClick={onClose}>
            Close
          </button>
          <button
            type="button"
            className={verb === "replay" ? "button primary" : "button danger"}
            disabled={!found?.count || act.isPending}
            onClick={() => void confirm()}
          >
            {WORDS[verb]} {found?.count ?? ""}
          </button>
        </>
      }
    >
      {count.isPending && <Loading what="the count" />}
      {found && (
        <p>
          <strong>{found.count}</strong> {found.count === 1 ? "run matches" : "runs match"}
          {found.more ? " in this round, and there are more" : ""}.
          {found.skipped > 0 && ` ${found.skipped} are left out: they cannot be acted on.`}
        </p>
      )}
      <Failure error={count.error ?? act.error} />
    </Dialog>
  );
}
