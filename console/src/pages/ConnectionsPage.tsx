import { type ReactNode, useMemo, useState } from "react";
import { Link } from "wouter";
import { type Connection, useConnections } from "../api/connections";
import { useMore } from "../api/queries";
import { type System, useSystems } from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { Badge, Empty, Failure, Loading, PageHead, Time, type Tone } from "../components/basics";
import { Choice } from "../components/filters";
import { SystemMark } from "../components/Mark";
import { NewConnectionDialog } from "../components/NewConnectionDialog";
import { VirtualList } from "../components/VirtualList";
import { type ConnectionState, pastRefusal, soon, stateOf } from "../lib/connections";
import { useFilters } from "../lib/filters";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { useNow } from "../lib/time";

const COLUMNS = "128px minmax(140px, 1.2fr) minmax(120px, 1fr) minmax(0, 1.6fr) 96px 110px 96px";
const HEAD = ["State", "Name", "System", "What is wrong", "Last success", "Last refusal", "Expires"];
const TONES: Record<ConnectionState, Tone> = {
  refused: "bad",
  invalid: "bad",
  expired: "bad",
  "not authorised": "warn",
  "expires soon": "warn",
  works: "good",
  "not checked": "idle",
};
/** In a small window: what works, and what is wrong. */
const NARROW = {
  columns: "128px minmax(90px, 1fr) minmax(150px, 1.6fr)",
  head: ["State", "Name", "What is wrong"],
};
/** Not a state: what no template and no activation uses. */
const UNUSED = "unused";
/** The API knows of all connections what ends, and not only of those that are loaded. */
const EXPIRING = "expires soon";
const ASKED = [UNUSED, EXPIRING];
const WORST: ConnectionState[] = [
  "refused",
  "invalid",
  "expired",
  "not authorised",
  "expires soon",
  "not checked",
  "works",
];

export function ConnectionBadge({ state }: { state: ConnectionState }) {
  return <Badge tone={TONES[state]}>{state}</Badge>;
}

export default function ConnectionsPage() {
  const { canEdit, namespace } = useOrganisation();
  const [making, setMaking] = useState(false);
  const [filters, change] = useFilters(["search", "state", "system"] as const);
  const now = useNow();
  const connections = useConnections({
    search: filters.search,
    unused: filters.state === UNUSED,
    endsBefore: filters.state === EXPIRING ? soon(now) : undefined,
  });
  const systems = useSystems("");
  const named = useMemo(
    () => new Map(systems.data?.pages.flatMap((each) => each.items).map((each) => [each.id, each])),
    [systems.data],
  );
  const all = useMemo(() => connections.data?.pages.flatMap((each) => each.items) ?? [], [connections.data]);
  const onEnd = useMore(connections);
  const items = all
    .filter((each) => !filters.system || each.systemId === filters.system)
    .map((connection) => ({ connection, ...stateOf(connection, now) }))
    .filter((each) => !filters.state || ASKED.includes(filters.state) || each.state === filters.state)
    .sort((one, other) => WORST.indexOf(one.state) - WORST.indexOf(other.state));
  const filtered = all.length > 0 || filters.search !== "" || ASKED.includes(filters.state);
  const total = connections.data?.pages[0]?.totalCount;
  return (
    <>
      <PageHead
        title="Connections"
        sub={
          total === undefined
            ? undefined
            : `${total} with credentials of systems; the worst first${connections.hasNextPage ? ` of the ${all.length} that are loaded` : ""}`
        }
      >
        {canEdit && (
          <button type="button" className="button primary" onClick={() => setMaking(true)}>
            New connection…
          </button>
        )}
      </PageHead>
      {making && <NewConnectionDialog onClose={() => setMaking(false)} />}
      <search className="filters">
        <input
          className="input"
          type="search"
          aria-label="Search by name"
          placeholder="Search by name"
          value={filters.search}
          onChange={(event) => change({ search: event.target.value })}
        />
        <Choice
          name="State"
          value={filters.state}
          options={[...WORST, UNUSED].map((each) => [each, each])}
          onChange={(state) => change({ state })}
        />
        <Choice
          name="System"
          value={filters.system}
          options={[...named.values()].map(({ id, name }) => [id, name])}
          onChange={(system) => change({ system })}
        />
      </search>
      <Failure error={connections.error} />
      <div className="card">
        {connections.isPending ? (
          <Loading what="connections" />
        ) : items.length === 0 ? (
          <Empty
            title={filtered ? "No connections match these filters" : "No connection yet"}
            commands={filtered ? [] : [`tieline connections connect --help`]}
          >
            {filtered
              ? undefined
              : "A connection adds credentials to a system. Connect a provider of the catalogue, or a system."}
          </Empty>
        ) : (
          <VirtualList
            label="Connections"
            columns={COLUMNS}
            head={HEAD}
            narrow={NARROW}
            items={items}
            keyOf={(each) => each.connection.id}
            onEnd={onEnd}
            row={(each, columns) => (
              <Link
                className="tr"
                href={path(namespace, "connections", each.connection.id)}
                style={{ gridTemplateColumns: columns }}
              >
                <span>
                  <ConnectionBadge state={each.state} />
                </span>
                <span className="cut">{each.connection.name}</span>
                <span className="cut dim wide">{systemOf(each.connection, named)}</span>
                <span className="cut dim" title={visible(each.errors.join("; "))}>
                  {visible(each.errors.join("; "))}
                </span>
                <span className="dim wide">
                  <Time value={each.connection.lastSuccessAt} never="" />
                </span>
                <span className="dim wide" title={pastRefusal(each.connection)}>
                  <Time value={each.connection.lastRefusal?.lastAt} never="" />
                </span>
                <span className="dim wide">{each.expires ? <Time value={each.expires} /> : ""}</span>
              </Link>
            )}
          />
        )}
      </div>
    </>
  );
}

function systemOf(connection: Connection, named: Map<string, System>): ReactNode {
  const system = connection.systemId ? named.get(connection.systemId) : undefined;
  if (!system) return connection.systemId ?? "";
  return (
    <>
      <SystemMark system={system} small />
      {visible(system.name)}
    </>
  );
}
