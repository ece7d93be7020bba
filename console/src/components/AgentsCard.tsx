import { useState } from "react";
import { useOwner } from "../api/access";
import { type Connection, useTools } from "../api/connections";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "./ActionDialog";
import { Card } from "./basics";
import { useToast } from "./Toasts";

/** What agents may call through a connection. */
export function AgentsCard({ connection }: { connection: Connection }) {
  const { canEdit } = useOrganisation();
  const [changing, setChanging] = useState(false);
  const owner = useOwner(connection.id, "spec.tools");
  const tools = connection.tools;
  const names = tools?.operations ?? [];
  return (
    <Card
      title="Agents"
      aside={
        canEdit && !owner ? (
          <button type="button" className="button small" onClick={() => setChanging(true)}>
            Change…
          </button>
        ) : (
          canEdit && <span className="small dim">of {owner}</span>
        )
      }
    >
      {!tools?.read && names.length === 0 && <span className="dim">Agents may call nothing through it.</span>}
      {tools?.read && <div>Agents may call all operations with GET or HEAD.</div>}
      {names.length > 0 && (
        <div>
          They may call{" "}
          {names.map((each, at) => (
            <span key={each}>
              {at > 0 && ", "}
              <code>{each}</code>
            </span>
          ))}
          .
        </div>
      )}
      {changing && <AgentsDialog connection={connection} onClose={() => setChanging(false)} />}
    </Card>
  );
}

function AgentsDialog({ connection, onClose }: { connection: Connection; onClose: () => void }) {
  const [read, setRead] = useState(connection.tools?.read ?? false);
  const [names, setNames] = useState((connection.tools?.operations ?? []).join("\n"));
  const change = useTools(connection.id);
  const say = useToast();
  const submit = () => {
    const operations = names
      .split("\n")
      .map((each) => each.trim())
      .filter((each) => each !== "");
    change.mutate(read || operations.length > 0 ? { read, operations } : {}, {
      onSuccess: () => say("What agents may call is changed."),
      close: onClose,
    });
  };
  return (
    <ActionDialog
      title={`What agents may call through ${connection.name}`}
      verb="Save"
      action={change}
      onSubmit={submit}
      onClose={onClose}
    >
      <label className="row">
        <input type="checkbox" checked={read} onChange={(event) => setRead(event.target.checked)} />
        All operations with GET or HEAD
      </label>
      <label className="field">
        Further operations, a name a line
        <textarea
          className="input mono"
          rows={5}
          value={names}
          onChange={(event) => setNames(event.target.value)}
        />
      </label>
    </ActionDialog>
  );
}
