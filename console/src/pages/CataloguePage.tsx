import { Link } from "wouter";
import { useCatalogue } from "../api/catalogue";
import { useOrganisation } from "../app/organisation";
import { Empty, Failure, Loading, PageHead } from "../components/basics";
import { Mark } from "../components/Mark";
import { CATEGORIES, inWords } from "../lib/catalogue";
import { useFilters } from "../lib/filters";
import { path } from "../lib/links";

/** The providers that can be connected with a few clicks. */
export default function CataloguePage() {
  const { namespace } = useOrganisation();
  const [filters, change] = useFilters(["search", "category"] as const);
  const found = useCatalogue(filters.search, filters.category);
  const items = found.data?.pages.flatMap((each) => each.items) ?? [];
  const total = found.data?.pages[0]?.totalCount;
  return (
    <>
      <PageHead title="Catalogue" sub="Providers that you connect without writing a System" />
      <search className="filters">
        <input
          className="input"
          type="search"
          aria-label="Search providers"
          placeholder="Search providers"
          value={filters.search}
          onChange={(event) => change({ search: event.target.value })}
        />
        <select
          className="input"
          aria-label="Category"
          value={filters.category}
          onChange={(event) => change({ category: event.target.value })}
        >
          <option value="">All categories</option>
          {CATEGORIES.map((each) => (
            <option key={each} value={each}>
              {inWords(each)}
            </option>
          ))}
        </select>
        <span className="small dim" role="status">
          {total === undefined ? "" : total === 1 ? "1 provider" : `${total} providers`}
        </span>
      </search>
      <Failure error={found.error} />
      {found.isPending && <Loading what="the catalogue" />}
      {found.data && items.length === 0 && (
        <Empty
          title="No providers match these filters"
          commands={["tieline systems search --openapi WORD", "tieline systems add --from openapi:KEY"]}
        >
          Thousands of public API descriptions can be added with one command. You can also write a System.
        </Empty>
      )}
      <div className="grid">
        {items.map((each) => (
          <Link key={each.key} className="card provider" href={path(namespace, "catalogue", each.key)}>
            <Mark of={each.key} name={each.name} />
            <div className="grow">
              <strong>{each.name}</strong>
              <div className="dim">{each.summary}</div>
              <div className="small dimmer">{each.categories.map(inWords).join(" · ")}</div>
            </div>
          </Link>
        ))}
      </div>
      {found.hasNextPage && (
        <button type="button" className="button quiet" onClick={() => void found.fetchNextPage()}>
          More
        </button>
      )}
    </>
  );
}
