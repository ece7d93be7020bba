import { useState } from "react";
import { Link } from "wouter";
import { type System, useConnectors, useImport, useSystems } from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { Badge, Card, Empty, Failure, Loading, PageHead, Time } from "../components/basics";
import { FoundOperations } from "../components/FoundOperations";
import { SystemMark } from "../components/Mark";
import { useFilters } from "../lib/filters";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { newUlid } from "../lib/ulid";

export default function SystemsPage() {
  const { canAdminister, namespace } = useOrganisation();
  const [filters, change] = useFilters(["search"] as const);
  const [importing, setImporting] = useState(false);
  const systems = useSystems(filters.search);
  const connectors = useConnectors(filters.search);
  const items = systems.data?.pages.flatMap((each) => each.items) ?? [];
  return (
    <>
      <PageHead title="Systems and connectors" sub="The systems that your integrations call">
        {canAdminister && (
          <>
            <button type="button" className="button" onClick={() => setImporting(true)}>
              Import…
            </button>
            <Link className="button" href={path(namespace, "new-system")}>
              New system by form
            </Link>
          </>
        )}
        <Link className="button primary" href={path(namespace, "catalogue")}>
          {canAdminister ? "Add from the catalogue" : "Catalogue"}
        </Link>
      </PageHead>
      <search className="filters">
        <input
          className="input"
          type="search"
          aria-label="Search in systems, connectors and operations"
          placeholder="Search in systems, connectors and operations"
          value={filters.search}
          onChange={(event) => change({ search: event.target.value })}
        />
      </search>
      <FoundOperations search={filters.search} />
      <div className="split">
        <Card title="Systems" flush aside={<span className="small dim">{systems.data?.pages[0]?.totalCount}</span>}>
          <Failure error={systems.error} />
          {systems.isPending && <Loading what="systems" />}
          {systems.data && items.length === 0 && (
            <Empty
              title={filters.search ? "No systems match these filters" : "No system"}
              action={
                !filters.search && (
                  <Link className="button primary" href={path(namespace, "catalogue")}>
                    Choose a provider
                  </Link>
                )
              }
              commands={filters.search ? [] : ["tieline systems search"]}
            >
              {filters.search
                ? undefined
                : "Add a provider from the catalogue, import an API description, or create a system by its base URL."}
            </Empty>
          )}
          {items.map((each) => (
            <SystemRow key={each.id} system={each} />
          ))}
          {systems.hasNextPage && (
            <button type="button" className="button quiet" onClick={() => void systems.fetchNextPage()}>
              More
            </button>
          )}
        </Card>
        <Card title="Connectors" flush aside={<span className="small dim">{connectors.data?.totalCount}</span>}>
          <Failure error={connectors.error} />
          {connectors.isPending && <Loading what="connectors" />}
          {connectors.data?.items.length === 0 && (
            <Empty
              title={filters.search ? "No connectors match these filters" : "No connector"}
              commands={filters.search ? [] : ["tieline connectors import openapi.yaml"]}
            >
              {filters.search ? undefined : "An imported API description becomes one."}
            </Empty>
          )}
          {connectors.data?.items.map((each) => (
            <Link key={each.id} className="problem" href={path(namespace, "connectors", each.id)}>
              <div className="grow">
                <strong>{visible(each.name)}</strong>
                <div className="dim cut">{visible(each.baseUrl)}</div>
                <code className="dimmer">{each.id}</code>
              </div>
              <div className="stack-s">
                <span className="small dim">
                  {each.versions.length === 1 ? "1 version" : `${each.versions.length} versions`}
                </span>
                <span className="small dimmer">
                  <Time value={each.updatedAt} />
                </span>
              </div>
            </Link>
          ))}
        </Card>
      </div>
      {importing && <ImportDialog onClose={() => setImporting(false)} />}
    </>
  );
}

function SystemRow({ system }: { system: System }) {
  const { namespace } = useOrganisation();
  return (
    <Link className="problem" href={path(namespace, "systems", system.id)}>
      <SystemMark system={system} />
      <div className="grow">
        <strong>{system.name}</strong>
        <div className="dim cut">{visible(system.templateBaseUrl || system.domain)}</div>
      </div>
      <div className="row wrap">
        {system.authSchemeConfigs.map((each, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a system may have two schemes of a type
          <span key={at} className="badge plain">
            {each.type}
          </span>
        ))}
      </div>
    </Link>
  );
}

const TONES = { error: "bad", warning: "warn", info: "info" } as const;

function ImportDialog({ onClose }: { onClose: () => void }) {
  const action = useImport();
  const { namespace } = useOrganisation();
  const connectors = useConnectors("");
  const [fresh] = useState(newUlid);
  const [connector, setConnector] = useState(fresh);
  const [version, setVersion] = useState("1.0.0");
  const [file, setFile] = useState<File>();
  const submit = () => {
    if (file) action.mutate({ connector, version, file, isNew: connector === fresh });
  };
  return (
    <ActionDialog
      title="Import an API description"
      verb="Import"
      working="Importing…"
      wide
      action={action}
      disabled={!file}
      onSubmit={submit}
      onClose={onClose}
    >
      <div className="field">
        <label htmlFor="connector">Connector</label>
        <select
          id="connector"
          className="input"
          value={connector}
          onChange={(event) => setConnector(event.target.value)}
        >
          {!connectors.data?.items.some((each) => each.id === fresh) && (
            <option value={fresh}>A new connector, named after the description</option>
          )}
          {connectors.data?.items
            .filter((each) => !each.projectId)
            .map((each) => (
              <option key={each.id} value={each.id}>
                Another version of {each.name}
              </option>
            ))}
        </select>
      </div>
      <div className="field">
        <label htmlFor="import-version">Version</label>
        <input
          id="import-version"
          className="input"
          required
          value={version}
          onChange={(event) => setVersion(event.target.value)}
        />
      </div>
      <div className="field">
        <label htmlFor="file">OpenAPI or Swagger as JSON or YAML, or a GraphQL schema</label>
        <input
          id="file"
          type="file"
          accept=".json,.yaml,.yml,.graphql,.graphqls,.gql"
          onChange={(event) => setFile(event.target.files?.[0])}
        />
      </div>
      {action.data && (
        <div className="stack-s">
          <p className="note good">
            {visible(action.data.connector.name)}: {action.data.actions.length} operations,{" "}
            {action.data.messages.length} findings.{" "}
            <Link className="link" href={path(namespace, "connectors", action.data.connector.id)}>
              Open it
            </Link>
          </p>
          {action.data.messages.map((each, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: findings have no identity
            <div key={at} className="row">
              <Badge tone={TONES[each.severity]}>{each.severity}</Badge>
              <span>{visible(each.text)}</span>
            </div>
          ))}
        </div>
      )}
    </ActionDialog>
  );
}
