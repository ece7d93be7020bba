import { useCallback, useMemo, useState } from "react";
import { Link } from "wouter";
import { type Connection, type ConnectionState, stateOf, useConnections } from "../api/connections";
import { useSystems } from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { Badge, Empty, Failure, Loading, PageHead, Time, type Tone } from "../components/basics";
import { NewConnectionDialog } from "../components/NewConnectionDialog";
import { VirtualList } from "../components/VirtualList";
import { useFilters } from "../lib/filters";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { useNow } from "../lib/time";
import { Choice } from "./RunsPage";

const COLUMNS = "118px minmax(140px, 1.2fr) minmax(120px, 1fr) minmax(0, 1.6fr) 110px 96px";
const HEAD = ["State", "Name", "System", "What is wrong", "Expires", "Changed"];
const TONES: Record<ConnectionState, Tone> = {
  refused: "bad",
  expired: "bad",
  "expires soon": "warn",
  works: "good",
  "not checked": "idle",
};
/** Not a state: what no template and no activation uses. */
const UNUSED = "unused";
const WORST: ConnectionState[] = ["refused", "expired", "expires soon", "not checked", "works"];

export function ConnectionBadge({ state }: { state: ConnectionState }) {
  return <Badge tone={TONES[state]}>{state}</Badge>;
}

export default function ConnectionsPage() {
  const { canEdit, namespace } = useOrganisation();
  const [making, setMaking] = useState(false);
  const [filters, change] = useFilters(["search", "state", "system"] as const);
  const connections = useConnections({ unused: filters.state === UNUSED });
  const systems = useSystems("");
  const now = useNow();
  const names = useMemo(
    () => new Map(systems.data?.pages.flatMap((each) => each.items).map((each) => [each.id, each.name])),
    [systems.data],
  );
  const all = useMemo(() => connections.data?.pages.flatMap((each) => each.items) ?? [], [connections.data]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = connections;
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const items = all
    .filter((each) => each.name.toLowerCase().includes(filters.search.toLowerCase()))
    .filter((each) => !filters.system || each.systemId === filters.system)
    .map((connection) => ({ connection, ...stateOf(connection, now) }))
    .filter((each) => !filters.state || filters.state === UNUSED || each.state === filters.state)
    .sort((one, other) => WORST.indexOf(one.state) - WORST.indexOf(other.state));
  const total = connections.data?.pages[0]?.totalCount;
  return (
    <>
      <PageHead
        title="Connections"
        sub={
          total === undefined
            ? undefined
            : `${total} with credentials of systems; the worst first${hasNextPage ? ` of the ${all.length} that are loaded` : ""}`
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
          options={[...names]}
          onChange={(system) => change({ system })}
        />
      </search>
      <Failure error={connections.error} />
      <div className="card">
        {connections.isPending ? (
          <Loading what="connections" />
        ) : items.length === 0 ? (
          <Empty
            title={all.length ? "No connection is like that" : "No connection yet"}
            commands={all.length ? [] : [`kubectl explain connection.spec`, `tieline connections connect --help`]}
          >
            {all.length
              ? undefined
              : "A connection joins a system and credentials. Make one here, with a manifest, or by REST."}
          </Empty>
        ) : (
          <VirtualList
            label="Connections"
            columns={COLUMNS}
            head={HEAD}
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
                <span className="cut dim">{systemOf(each.connection, names)}</span>
                <span className="cut dim" title={visible(each.errors.join("; "))}>
                  {visible(each.errors.join("; "))}
                </span>
                <span className="dim">{each.expires ? <Time value={each.expires} /> : ""}</span>
                <span className="dim">
                  <Time value={each.connection.updatedAt} />
                </span>
              </Link>
            )}
          />
        )}
      </div>
    </>
  );
}

function systemOf(connection: Connection, names: Map<string, string>): string {
  return (connection.systemId && names.get(connection.systemId)) || connection.systemId || "";
}
