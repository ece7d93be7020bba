import { Link } from "wouter";
import { ApiError } from "../api/client";
import { useLogs } from "../api/logs";
import { isOver, useRun } from "../api/runs";
import { useOrganisation } from "../app/organisation";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { Card, Failure } from "./basics";
import { LogLines } from "./LogLines";
import { RunBadge } from "./status";

const MOST_LINES = 100;

/** What became of a call: its run, and the lines of its log. */
export function RunBeside({ project, environment, run }: { project: string; environment: string; run: string }) {
  const { namespace } = useOrganisation();
  const found = useRun(project, run);
  const over = found.data !== undefined && isOver(found.data.status);
  const logs = useLogs({ project, environment, search: run }, { live: !over, first: MOST_LINES });
  const lines = [...(logs.data?.logs ?? [])].reverse();
  // The run is known a moment after the answer.
  const unknown = found.error instanceof ApiError && found.error.status === 404;
  return (
    <Card
      title="The run"
      aside={
        <Link className="link small" href={path(namespace, "projects", project, "runs", run)}>
          Open it
        </Link>
      }
    >
      <div className="stack-s">
        <div className="row wrap">
          {found.data ? (
            <RunBadge status={found.data.status} />
          ) : (
            <span className="dim">It appears in a moment.</span>
          )}
          <code className="dimmer">{run}</code>
        </div>
        {found.data?.error?.message && <p className="note bad">{visible(found.data.error.message)}</p>}
        {!unknown && <Failure error={found.error} />}
        <Failure error={logs.error} />
        {lines.length > 0 ? <LogLines lines={lines} /> : <p className="small dim">No line of its log yet.</p>}
      </div>
    </Card>
  );
}
