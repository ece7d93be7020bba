import { useState } from "react";
import { Link } from "wouter";
import { type FoundOperation, useOperationSearch } from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { addingOf, callOf } from "../lib/calls";
import { path } from "../lib/links";
import { kindOf } from "../lib/operations";
import { visible } from "../lib/text";
import { Card, Command, Failure, Loading } from "./basics";

/** The operations of all connectors that a search finds, each with its connector and the call in code. */
export function FoundOperations({ search }: { search: string }) {
  const found = useOperationSearch(search);
  const items = found.data?.pages.flatMap((each) => each.items) ?? [];
  if (search.trim() === "") return null;
  return (
    <Card title="Operations" flush aside={<span className="small dim">{found.data?.pages[0]?.totalCount}</span>}>
      <Failure error={found.error} />
      {found.isPending && <Loading what="operations" />}
      {found.data && items.length === 0 && (
        <div className="card-body dim">No operation contains all of these words in its name, path or summary.</div>
      )}
      <ul className="plain-list" aria-label="Operations found">
        {items.map((each) => (
          <OperationRow key={`${each.versionId}${each.id}`} operation={each} />
        ))}
      </ul>
      {found.hasNextPage && (
        <button type="button" className="button quiet" onClick={() => void found.fetchNextPage()}>
          More operations
        </button>
      )}
    </Card>
  );
}

function OperationRow({ operation }: { operation: FoundOperation }) {
  const { namespace } = useOrganisation();
  const [open, setOpen] = useState(false);
  const filters = new URLSearchParams({ search: operation.path || operation.name });
  return (
    <li className="problem">
      <span className="method">{kindOf(operation)}</span>
      <div className="grow stack-s">
        <div className="break">
          <strong>{visible(operation.name)}</strong>{" "}
          <span className="dim mono small">{visible(operation.path)}</span>
        </div>
        {operation.summary && <div className="dim cut">{visible(operation.summary)}</div>}
        <div className="small dim">
          in{" "}
          <Link className="link" href={`${path(namespace, "connectors", operation.connectorId)}?${filters}`}>
            {visible(operation.connectorName)}
          </Link>{" "}
          {visible(operation.version)}
        </div>
        {open && (
          <div className="stack-s">
            <Command>{addingOf(operation)}</Command>
            <Command>{callOf(operation)}</Command>
          </div>
        )}
      </div>
      <button type="button" className="button small" aria-expanded={open} onClick={() => setOpen(!open)}>
        In code
      </button>
    </li>
  );
}
