import { Link } from "wouter";
import { useProjects } from "../api/projects";
import { useOrganisation } from "../app/organisation";
import { Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { Choice } from "../components/filters";
import { EnvironmentBadge } from "../components/status";
import { VirtualList } from "../components/VirtualList";
import { useFilters } from "../lib/filters";
import { path } from "../lib/links";

const COLUMNS = "minmax(160px, 1.4fr) minmax(0, 3fr) 110px";
const NARROW = { columns: "minmax(110px, 1fr) minmax(160px, 1.6fr)", head: ["Name", "Environments"] };
const STATES = ["draft", "running", "suspended", "error"];

export default function ProjectsPage() {
  const { namespace, canEdit } = useOrganisation();
  const [filters, change] = useFilters(["search", "state"] as const);
  const projects = useProjects();
  if (projects.isPending) return <Loading what="projects" />;
  if (!projects.data) return <Failure error={projects.error} />;
  const wanted = filters.search.toLowerCase();
  const items = projects.data.filter(
    (each) =>
      each.name.toLowerCase().includes(wanted) &&
      (!filters.state || each.environments.some((one) => one.status === filters.state)),
  );
  return (
    <>
      <PageHead title="Projects" sub={`${items.length} of ${projects.data.length}`}>
        {canEdit && (
          <Link className="button primary" href={path(namespace, "new-project")}>
            New project
          </Link>
        )}
      </PageHead>
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
          options={STATES.map((each) => [each, each])}
          onChange={(state) => change({ state })}
        />
      </search>
      <div className="card">
        {items.length === 0 ? (
          <Empty
            title={projects.data.length ? "No projects match these filters" : "No project yet"}
            commands={
              projects.data.length
                ? []
                : ["tieline init orders", `kubectl apply -n ${namespace} -k examples/quickstart`]
            }
          />
        ) : (
          <VirtualList
            label="Projects"
            columns={COLUMNS}
            head={["Name", "Environments", "Changed"]}
            narrow={NARROW}
            items={items}
            keyOf={(each) => each.id}
            row={(each, columns) => (
              <Link
                className="tr"
                href={path(namespace, "projects", each.id)}
                style={{ gridTemplateColumns: columns }}
              >
                <span className="cut">{each.name}</span>
                <span className="row cut">
                  {each.environments.map((one) => (
                    <span key={one.id} className="row">
                      <span className="small dim">
                        {one.name}
                        {one.servingVersion && ` ${one.servingVersion.name}`}
                      </span>
                      <EnvironmentBadge environment={one} />
                    </span>
                  ))}
                </span>
                <span className="dim wide">
                  <Time value={each.updatedAt} />
                </span>
              </Link>
            )}
          />
        )}
      </div>
    </>
  );
}
