import { Link } from "wouter";
import { type Change, ownersOf, useChanges } from "../api/access";
import { useOrganisation } from "../app/organisation";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { Card, Failure, Loading, Time } from "./basics";

const PAGES: Record<string, string> = {
  Project: "projects",
  Connection: "connections",
  System: "systems",
  Connector: "connectors",
};
const MOST_FIELDS = 6;

/** Who changed what, and what the platform reported: of the organisation, or of one object. */
export function ChangesCard({ object }: { object?: string }) {
  const changes = useChanges(object);
  return (
    <Card title="Changes" flush aside={<span className="small dim">the newest first</span>}>
      <Failure error={changes.error} />
      {changes.isPending && <Loading what="changes" />}
      {changes.data?.length === 0 && <div className="card-body dim">None is known.</div>}
      <ul className="scroll" aria-label="Changes" tabIndex={changes.data?.length ? 0 : undefined}>
        {changes.data?.map((each) => (
          <ChangeRow key={`${each.kind}${each.id}${each.manager}${each.reason}${each.at}`} change={each} />
        ))}
      </ul>
    </Card>
  );
}

function ChangeRow({ change }: { change: Change }) {
  const { namespace } = useOrganisation();
  const page = PAGES[change.kind];
  const more = change.fields.length - MOST_FIELDS;
  return (
    <li className="problem">
      <span className={`dot ${change.type === "event" ? (change.warning ? "warn" : "good") : "info"}`} />
      <div className="grow stack-s">
        <div>
          {page && change.id ? (
            <Link className="link" href={path(namespace, page, change.id)}>
              {change.name}
            </Link>
          ) : (
            <span>{change.name}</span>
          )}{" "}
          <span className="dim">{change.kind}</span>
        </div>
        {change.type === "event" ? (
          <div className="dim">
            <strong>{change.reason}</strong> {visible(change.message)}
          </div>
        ) : (
          <div className="dim mono small break">
            {change.fields.slice(0, MOST_FIELDS).join(", ")}
            {more > 0 && ` and ${more} more`}
          </div>
        )}
      </div>
      <div className="stack-s right-text">
        <span className="small">{visible(who(change.manager))}</span>
        <span className="small dim">
          <Time value={change.at} />
        </span>
      </div>
    </li>
  );
}

function who(manager: string): string {
  return manager === "tieline-api" ? "REST or this console" : manager;
}

/** That fields of an object belong to others, such as a GitOps tool, so that changing them here is refused. */
export function OwnedNote({ object }: { object: string }) {
  const owners = ownersOf(useChanges(object).data);
  if (owners.length === 0) return null;
  return (
    <div className="note warn" role="note" aria-label="Owned by others">
      {owners.map((each) => (
        <div key={each.manager}>
          <strong>{each.manager}</strong> owns {each.fields.length === 1 ? "the field" : "the fields"}{" "}
          <span className="mono small">{each.fields.slice(0, MOST_FIELDS).join(", ")}</span>
          {each.fields.length > MOST_FIELDS && ` and ${each.fields.length - MOST_FIELDS} more`}. Change{" "}
          {each.fields.length === 1 ? "it" : "them"} there: the API refuses to do it here.
        </div>
      ))}
    </div>
  );
}
