import { useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import {
  type Action,
  type Connector,
  useActions,
  useConnector,
  useConnectorVersion,
  useSystemOf,
} from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { Badge, Card, Empty, Facts, Failure, Loading, PageHead, Time } from "../components/basics";
import { ChangesCard, OwnedNote } from "../components/Changes";
import { Dialog } from "../components/Dialog";
import { Choice } from "../components/filters";
import { OperationDialog } from "../components/OperationDialog";
import { VirtualList } from "../components/VirtualList";
import { useFilters } from "../lib/filters";
import { path, safeUrl } from "../lib/links";
import { kindOf, shownAs } from "../lib/operations";
import { visible } from "../lib/text";

const COLUMNS = "76px minmax(160px, 1.4fr) minmax(160px, 2fr)";
const NARROW = { columns: "76px minmax(160px, 1fr)", head: ["Method", "Operation"] };
const TONES = { error: "bad", warning: "warn", info: "info" } as const;

/** What an imported API description offers: its operations, and what was found when it was imported. */
export default function ConnectorPage({ connector }: { connector: string }) {
  const { namespace, canAdminister } = useOrganisation();
  const [filters, change] = useFilters(["version", "search"] as const);
  const [making, setMaking] = useState(false);
  const found = useConnector(connector);
  const shown = found.data?.versions.find((each) => each.isDefault) ?? found.data?.versions[0];
  const version = filters.version || shown?.name;
  if (found.isPending) return <Loading what="the connector" />;
  if (!found.data) return <Failure error={found.error} />;
  const data = found.data;
  const docs = safeUrl(data.documentationURL);
  return (
    <>
      <PageHead
        title={visible(data.name)}
        crumbs={<Link href={`/${namespace}/systems`}>Systems and connectors</Link>}
        sub={visible(data.baseUrl)}
      >
        {docs && (
          <a className="button" href={docs} target="_blank" rel="noreferrer">
            Documentation
          </a>
        )}
        {canAdminister && version && (
          <button type="button" className="button primary" onClick={() => setMaking(true)}>
            Make a system…
          </button>
        )}
      </PageHead>
      <OwnedNote object={data.id} />
      <search className="filters">
        <input
          className="input"
          type="search"
          aria-label="Search in operations"
          placeholder="Search in operations"
          value={filters.search}
          onChange={(event) => change({ search: event.target.value })}
        />
        <Choice
          name="Version"
          value={version ?? ""}
          options={data.versions.map((each) => [each.name, `${each.name}${each.isLatest ? " (newest)" : ""}`])}
          onChange={(chosen) => change({ version: chosen })}
        />
      </search>
      <Operations connector={connector} name={data.name} version={version} search={filters.search} />
      <div className="split">
        <div className="stack">
          <Findings connector={connector} version={version} />
          <Card title="About">
            <Facts
              of={[
                ["Connector", <code key="id">{data.id}</code>],
                [
                  "Project",
                  data.projectId && (
                    <Link className="link" href={path(namespace, "projects", data.projectId)}>
                      its webhooks and operations are of a project
                    </Link>
                  ),
                ],
                ["Versions", data.versions.length],
                [
                  "Ways to authenticate",
                  data.authSchemeConfigs.map((each) => each.schemeType).join(", ") || "none",
                ],
              ]}
            />
          </Card>
        </div>
        <ChangesCard object={data.id} />
      </div>
      {making && version && <SystemDialog connector={data} version={version} onClose={() => setMaking(false)} />}
    </>
  );
}

function Operations({
  connector,
  name,
  version,
  search,
}: {
  connector: string;
  name: string;
  version: string | undefined;
  search: string;
}) {
  const actions = useActions(connector, version);
  const [open, setOpen] = useState<Action>();
  const all = actions.data?.actions ?? [];
  const wanted = search.trim().toLowerCase();
  const items = useMemo(() => all.filter((each) => matches(each, wanted)), [all, wanted]);
  const left = (actions.data?.total ?? 0) - all.length;
  return (
    <Card
      title="Operations"
      flush
      aside={<span className="small dim">{wanted ? `${items.length} of ${all.length}` : actions.data?.total}</span>}
    >
      <Failure error={actions.error} />
      {version && actions.isPending && <Loading what="operations" />}
      {actions.data && items.length === 0 && (
        <Empty title={all.length ? "No operations match this search" : "No operation"}>
          {all.length ? undefined : "No operation in the description could be read: see the findings."}
        </Empty>
      )}
      {items.length > 0 && (
        <VirtualList
          label="List of operations"
          columns={COLUMNS}
          head={["Method", "Operation", "What it does"]}
          narrow={NARROW}
          items={items}
          keyOf={(each) => each.id}
          row={(each, columns) => (
            <button
              type="button"
              className="tr"
              style={{ gridTemplateColumns: columns }}
              onClick={() => setOpen(each)}
            >
              <span>
                <span className="method">{kindOf(each)}</span>
              </span>
              <span className="cut mono" title={visible(shownAs(each))}>
                {visible(shownAs(each))}
              </span>
              <span className="cut dim wide" title={visible(each.description)}>
                {visible(each.summary || each.name)}
              </span>
            </button>
          )}
        />
      )}
      {left > 0 && <p className="note">{left} more are not searched here.</p>}
      {open && <OperationDialog action={open} connectorName={name} onClose={() => setOpen(undefined)} />}
    </Card>
  );
}

function matches(action: Action, wanted: string): boolean {
  if (!wanted) return true;
  return `${kindOf(action)} ${shownAs(action)} ${action.name} ${action.summary}`.toLowerCase().includes(wanted);
}

function Findings({ connector, version }: { connector: string; version: string | undefined }) {
  const found = useConnectorVersion(connector, version);
  const messages = found.data?.messages ?? [];
  return (
    <Card
      title="Import findings"
      flush
      aside={
        found.data && (
          <span className="small dim">
            imported <Time value={found.data.createdAt} />
          </span>
        )
      }
    >
      <Failure error={found.error} />
      {found.isPending && <Loading what="findings" />}
      {found.data && messages.length === 0 && <div className="card-body dim">No problems found.</div>}
      <ul className="scroll" aria-label="Findings" tabIndex={messages.length > 0 ? 0 : undefined}>
        {messages.map((each, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: findings have no identity
          <li key={at} className="problem">
            <Badge tone={TONES[each.severity]}>{each.severity}</Badge>
            <span className="grow break">{visible(each.text)}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function SystemDialog({
  connector,
  version,
  onClose,
}: {
  connector: Connector;
  version: string;
  onClose: () => void;
}) {
  const { namespace } = useOrganisation();
  const [, navigate] = useLocation();
  const making = useSystemOf(connector.id);
  const [values, setValues] = useState({
    name: connector.name,
    domain: hostOf(connector.baseUrl),
    templateBaseUrl: connector.baseUrl,
  });
  const made = making.data;
  const field = (name: keyof typeof values, label: string) => (
    <label className="field">
      <span>{label}</span>
      <input
        className="input"
        required
        autoComplete="off"
        value={values[name]}
        onChange={(event) => setValues({ ...values, [name]: event.target.value })}
      />
    </label>
  );
  if (made) {
    return (
      <Dialog
        title={`Create a system from ${connector.name}`}
        onClose={onClose}
        foot={
          <button
            type="button"
            className="button primary"
            onClick={() => navigate(path(namespace, "systems", made.id))}
          >
            Open the system
          </button>
        }
      >
        <p className="note good">{made.name} is there.</p>
        {made.messages.map((each) => (
          <div key={each.text} className="row">
            <Badge tone={TONES[each.severity]}>{each.severity}</Badge>
            <span className="break">{visible(each.text)}</span>
          </div>
        ))}
      </Dialog>
    );
  }
  return (
    <ActionDialog
      title={`Create a system from ${connector.name}`}
      verb="Create"
      action={making}
      onSubmit={() => making.mutate({ version, ...values })}
      onClose={onClose}
    >
      {field("name", "Name")}
      {field("domain", "Domain")}
      {field("templateBaseUrl", "Base URL")}
    </ActionDialog>
  );
}

function hostOf(url: string): string {
  try {
    return new URL(url).hostname;
  } catch {
    return "";
  }
}
