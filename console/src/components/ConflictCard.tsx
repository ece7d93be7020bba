import type { Conflict } from "../lib/editing";
import { visible } from "../lib/text";
import { Card } from "./basics";
import { Diff } from "./Diff";

/** Files that two people changed: both texts, and which of them stays. */
export function ConflictCard({
  conflicts,
  onDecide,
}: {
  conflicts: Conflict[];
  onDecide: (conflict: Conflict, keepMine: boolean) => void;
}) {
  return (
    <Card title="Conflicts" aside={<span className="small dim">theirs −, yours +</span>}>
      <div className="stack">
        {conflicts.map((each) => (
          <div key={each.filename} className="stack-s">
            <div className="row wrap">
              <code className="grow">{visible(each.filename)}</code>
              <button
                type="button"
                className="button small"
                aria-label={`Keep mine: ${visible(each.filename)}`}
                onClick={() => onDecide(each, true)}
              >
                Keep mine
              </button>
              <button
                type="button"
                className="button small"
                aria-label={`Take theirs: ${visible(each.filename)}`}
                onClick={() => onDecide(each, false)}
              >
                Take theirs
              </button>
            </div>
            <Diff before={side(each, each.theirs)} after={side(each, each.mine)} />
          </div>
        ))}
      </div>
    </Card>
  );
}

function side({ filename }: Conflict, content: string | undefined) {
  return content === undefined ? [] : [{ filename, content }];
}
