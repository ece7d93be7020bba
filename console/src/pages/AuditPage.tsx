import { Link } from "wouter";
import { ACCESS, AUDIT_FILTERS, type AuditEntry, type AuditFilters, OUTCOMES, useAudit } from "../api/audit";
import { useMore } from "../api/queries";
import { useOrganisation } from "../app/organisation";
import { Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { Choice, NoMatch, Typed } from "../components/filters";
import { fieldsOf, outcomeOf, pageOf, whoOf } from "../lib/audit";
import { useFilters } from "../lib/filters";
import { path } from "../lib/links";
import { visible } from "../lib/text";

const DOTS: Record<string, string> = { allowed: "good", refused: "warn", failed: "bad" };

export default function AuditPage() {
  const { canAdminister } = useOrganisation();
  const [filters, change] = useFilters(AUDIT_FILTERS);
  return (
    <>
      <PageHead title="Audit" sub="Who changed what, and who was refused" />
      {canAdminister ? (
        <>
          <Filters filters={filters} change={change} />
          <Records filters={filters} change={change} />
        </>
      ) : (
        <Empty title="Only administrators read audit records">Ask an administrator of the organisation.</Empty>
      )}
    </>
  );
}

type Change = (changes: Partial<AuditFilters>) => void;

function Filters({ filters, change }: { filters: AuditFilters; change: Change }) {
  return (
    <search className="filters">
      <select
        className="input"
        aria-label="Log"
        value={filters.log === ACCESS ? ACCESS : ""}
        onChange={(event) => change({ log: event.target.value })}
      >
        <option value="">changes</option>
        <option value={ACCESS}>end users, anonymous callers, requests</option>
      </select>
      <Choice
        name="Outcome"
        value={filters.outcome}
        options={OUTCOMES.map((each) => [each, each])}
        onChange={(outcome) => change({ outcome })}
      />
      <Typed name="Subject" value={filters.subject} onChange={(subject) => change({ subject })} />
      <Typed name="Kind" value={filters.kind} onChange={(kind) => change({ kind })} />
      <Typed name="Id" value={filters.id} onChange={(id) => change({ id })} />
    </search>
  );
}

function Records({ filters, change }: { filters: AuditFilters; change: Change }) {
  const records = useAudit(filters, { enabled: true });
  const more = useMore(records);
  const items = records.data?.pages.flatMap((each) => each.items) ?? [];
  const isFiltered = AUDIT_FILTERS.some((each) => each !== "log" && filters[each]);
  const clear = () => change(Object.fromEntries(AUDIT_FILTERS.map((each) => [each, ""])));
  return (
    <div className="card">
      <Failure error={records.error} />
      {records.isPending && <Loading what="audit records" />}
      {records.data && items.length === 0 && !records.hasNextPage && isFiltered && (
        <NoMatch what="records" onClear={clear} />
      )}
      {records.data && items.length === 0 && !records.hasNextPage && !isFiltered && (
        <Empty title="No records yet" commands={["tieline audit list"]}>
          Each write by REST, this console, the command and agents appears here.
        </Empty>
      )}
      <ul aria-label="Audit records">
        {items.map((each) => (
          <Row key={each.sequence} entry={each} />
        ))}
      </ul>
      {records.hasNextPage && (
        <button type="button" className="button small quiet" disabled={records.isFetchingNextPage} onClick={more}>
          {items.length > 0 ? "Older records" : "Search older records"}
        </button>
      )}
    </div>
  );
}

function Row({ entry }: { entry: AuditEntry }) {
  return (
    <li className="problem">
      <span className={`dot ${DOTS[entry.outcome] ?? "info"}`} />
      <div className="grow stack-s">
        <div>
          <strong>{entry.operation}</strong> <About entry={entry} />
        </div>
        {entry.outcome !== "allowed" && <div>{outcomeOf(entry)}</div>}
        {entry.changes?.map((each) => (
          <div key={`${each.kind}${each.object}${each.action}`} className="dim small break">
            {each.action} {each.kind} <span className="mono">{fieldsOf(each)}</span>
          </div>
        ))}
        {entry.sent?.map((each) => (
          <div key={`${each.method}${each.host}${each.path}`} className="dim mono small break">
            {visible(`${each.method} ${each.host}${each.path}`)}
          </div>
        ))}
      </div>
      <div className="stack-s right-text" style={{ maxWidth: "45%" }}>
        <span className="small break">{whoOf(entry)}</span>
        <span className="small dim" title={visible(entry.userAgent)}>
          {entry.via}
          {entry.subject && entry.address && ` from ${entry.address}`}
        </span>
        <span className="small dim">
          <Time value={entry.at} />
        </span>
      </div>
    </li>
  );
}

function About({ entry }: { entry: AuditEntry }) {
  const { namespace } = useOrganisation();
  const { kind = "", object = "" } = entry;
  const page = pageOf(kind, object);
  return (
    <>
      <span className="dim">{kind}</span>{" "}
      {page ? (
        <Link className="link mono small" href={path(namespace, page, object)}>
          {visible(object)}
        </Link>
      ) : (
        <span className="mono small">{visible(object)}</span>
      )}
    </>
  );
}
