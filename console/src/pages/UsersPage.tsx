import { useMemo, useState } from "react";
import { Link } from "wouter";
import { useMore } from "../api/queries";
import { useUsers } from "../api/users";
import { useOrganisation } from "../app/organisation";
import { Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { Typed } from "../components/filters";
import { NewUserDialog } from "../components/UserDialogs";
import { VirtualList } from "../components/VirtualList";
import { useFilters } from "../lib/filters";
import { path } from "../lib/links";
import { visible } from "../lib/text";

const COLUMNS = "minmax(160px, 1.2fr) minmax(160px, 1.2fr) 110px";
const NARROW = { columns: "minmax(110px, 1fr) minmax(120px, 1fr)", head: ["Name", "ID in your application"] };

export default function UsersPage() {
  const { namespace, canEdit } = useOrganisation();
  const [making, setMaking] = useState(false);
  const [filters, change] = useFilters(["search"] as const);
  const users = useUsers(filters.search);
  const items = useMemo(() => users.data?.pages.flatMap((each) => each.users) ?? [], [users.data]);
  const onEnd = useMore(users);
  const total = users.data?.pages[0]?.totalCount;
  return (
    <>
      <PageHead
        title="Users"
        sub={total === undefined ? undefined : `${total.toLocaleString()} of your application's users`}
      >
        {canEdit && (
          <button type="button" className="button primary" onClick={() => setMaking(true)}>
            New user…
          </button>
        )}
      </PageHead>
      <search className="filters">
        <Typed
          name="Search by name or id"
          type="search"
          value={filters.search}
          onChange={(search) => change({ search })}
        />
      </search>
      <Failure error={users.error} />
      <div className="card">
        {users.isPending ? (
          <Loading what="users" />
        ) : items.length === 0 ? (
          <Empty
            title={filters.search ? "No users match this search" : "No user yet"}
            commands={filters.search ? [] : ["tieline api users"]}
          >
            {filters.search
              ? undefined
              : "Your application creates users by REST when they connect their accounts. You can also create users here."}
          </Empty>
        ) : (
          <VirtualList
            label="Users"
            columns={COLUMNS}
            head={["Name", "ID in your application", "Made"]}
            narrow={NARROW}
            items={items}
            keyOf={(each) => each.id}
            onEnd={onEnd}
            row={(each, columns) => (
              <Link
                className="tr"
                href={path(namespace, "users", each.id)}
                style={{ gridTemplateColumns: columns }}
              >
                <span className="cut">{visible(each.displayName || each.externalId)}</span>
                <span className="cut dim mono">{visible(each.externalId)}</span>
                <span className="dim wide">
                  <Time value={each.createdAt} />
                </span>
              </Link>
            )}
          />
        )}
      </div>
      {making && <NewUserDialog onClose={() => setMaking(false)} />}
    </>
  );
}
