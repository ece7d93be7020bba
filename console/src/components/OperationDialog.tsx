import type { Action } from "../api/systems";
import { addingOf, callOf } from "../lib/calls";
import { argumentsOf } from "../lib/operations";
import { visible } from "../lib/text";
import { Command, Facts, Pre } from "./basics";
import { Dialog } from "./Dialog";

/** An operation of a connector: what it takes and answers, and how code calls it. */
export function OperationDialog({
  action,
  connectorName,
  onClose,
}: {
  action: Action;
  connectorName: string;
  onClose: () => void;
}) {
  const taken = argumentsOf(action);
  const named = { connectorName, name: action.name, method: action.method, path: action.path };
  return (
    <Dialog
      title={visible(action.name)}
      onClose={onClose}
      wide
      foot={
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
      }
    >
      {(action.description || action.summary) && (
        <p className="break">{visible(action.description || action.summary)}</p>
      )}
      <Facts
        of={[
          [action.graphql ? "Operation" : "Request", <code key="request">{visible(requestOf(action))}</code>],
          ["Answer", action.graphql && <code key="answer">{visible(action.graphql.answer)}</code>],
        ]}
      />
      {taken.length > 0 && (
        <table className="table" aria-label="Arguments">
          <thead>
            <tr>
              <th>Argument</th>
              <th>Type</th>
              <th>What it is</th>
            </tr>
          </thead>
          <tbody>
            {taken.map((each) => (
              <tr key={`${each.place} ${each.name}`}>
                <td className="mono break">
                  {visible(each.name)}
                  {each.required && <span className="dim"> (needed)</span>}
                </td>
                <td className="mono break">{visible(each.type)}</td>
                <td className="dim break">{visible(each.about)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {action.graphql && <Pre>{action.graphql.document}</Pre>}
      <div className="stack-s">
        <Command>{addingOf(named)}</Command>
        <Command>{callOf({ ...named, body: action.requestBody != null })}</Command>
      </div>
    </Dialog>
  );
}

function requestOf(action: Action): string {
  return action.graphql ? `${action.graphql.kind} ${action.name}` : `${action.method.toUpperCase()} ${action.path}`;
}
