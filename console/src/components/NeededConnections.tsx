import { useState } from "react";
import { useLocation } from "wouter";
import type { ProjectTemplate } from "../api/editor";
import { type System, useNewSystem, useSystems } from "../api/systems";
import { type Template, useNewTemplate, useTemplates } from "../api/templates";
import { useOrganisation } from "../app/organisation";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { ActionDialog } from "./ActionDialog";
import { Card, Failure } from "./basics";
import { NewConnectionDialog } from "./NewConnectionDialog";

const MOST = 20;

/** The connection templates that code names, and what each still needs: a system, then a connection. */
export function NeededConnections({
  project,
  environment,
  template,
  named,
  onLeave,
  onChange,
}: {
  project: string;
  environment: string;
  template: ProjectTemplate | undefined;
  /** The names in the code. */
  named: string[];
  /** Called before another page opens. */
  onLeave: () => void;
  /** Called after the environment has something new. */
  onChange: () => void;
}) {
  const linked = useTemplates(project, environment);
  if (!linked.data) return null;
  const has = new Map(linked.data.map((each) => [each.name, each]));
  const open = named.slice(0, MOST).filter((name) => {
    const found = has.get(name);
    return !found || (!found.dynamic && !found.connectionId);
  });
  if (open.length === 0) return null;
  return (
    <Card title="Connections that the code needs" flush>
      {open.map((name) => {
        const needed = template?.connections.find((each) => each.name === name);
        return (
          <Needed
            key={name}
            name={name}
            purpose={needed?.purpose}
            catalogue={needed?.catalogue}
            found={has.get(name)}
            project={project}
            environment={environment}
            onLeave={onLeave}
            onChange={onChange}
          />
        );
      })}
    </Card>
  );
}

function Needed({
  name,
  purpose,
  catalogue,
  found,
  project,
  environment,
  onLeave,
  onChange,
}: {
  name: string;
  purpose?: string;
  catalogue?: string | null;
  found: Template | undefined;
  project: string;
  environment: string;
  onLeave: () => void;
  onChange: () => void;
}) {
  const { namespace, canAdminister } = useOrganisation();
  const [, navigate] = useLocation();
  const systems = useSystems("");
  const items = systems.data?.pages.flatMap((each) => each.items) ?? [];
  const [chosen, setChosen] = useState("");
  const likely = items.find((each) => catalogue && each.labels?.catalogue === catalogue) ?? sameName(items, name);
  const system = items.find((each) => each.id === chosen) ?? likely ?? items[0];
  const adding = useNewTemplate();
  const [doing, setDoing] = useState<"system" | "connection">();
  const asked = new URLSearchParams({ project, environment, name });
  const gallery = `${path(namespace, "catalogue", ...(catalogue ? [catalogue] : []))}?${asked}`;
  const add = (wanted: System) =>
    adding.mutate(
      { project, systemId: wanted.id, name, environmentId: environment, dynamic: false },
      {
        onSuccess: () => {
          onChange();
          setDoing("connection");
        },
      },
    );
  return (
    <div className="problem">
      <span className="dot warn" />
      <div className="grow stack-s">
        <div>
          <strong className="mono">{visible(name)}</strong>
          {purpose && <span className="dim"> {purpose}</span>}
        </div>
        {found ? (
          <div className="row wrap">
            <span className="dim">It has a system, and no connection yet: calls fail.</span>
            <button type="button" className="button small" onClick={() => setDoing("connection")}>
              Connect {visible(name)}…
            </button>
          </div>
        ) : (
          <div className="row wrap">
            {items.length > 0 && (
              <>
                <select
                  className="input"
                  aria-label={`System of ${visible(name)}`}
                  value={system?.id}
                  onChange={(event) => setChosen(event.target.value)}
                >
                  {items.map((each) => (
                    <option key={each.id} value={each.id}>
                      {visible(each.name)}
                    </option>
                  ))}
                </select>
                <button
                  type="button"
                  className="button small"
                  disabled={!system || adding.isPending}
                  onClick={() => system && add(system)}
                >
                  Use it for {visible(name)}
                </button>
              </>
            )}
            {canAdminister ? (
              <>
                <a
                  className="button small"
                  href={`/console${gallery}`}
                  onClick={(event) => {
                    event.preventDefault();
                    onLeave();
                    navigate(gallery);
                  }}
                >
                  From the catalogue…
                </a>
                <button type="button" className="button small" onClick={() => setDoing("system")}>
                  Your own API…
                </button>
              </>
            ) : (
              items.length === 0 && <span className="dim">An administrator adds systems.</span>
            )}
          </div>
        )}
        <Failure error={adding.error ?? systems.error} />
      </div>
      {doing === "system" && (
        <OwnSystemDialog
          name={name}
          onMade={(made) => {
            setDoing(undefined);
            add(made);
          }}
          onClose={() => setDoing(undefined)}
        />
      )}
      {doing === "connection" && (
        <NewConnectionDialog
          environment={environment}
          name={name}
          onMade={onChange}
          onClose={() => setDoing(undefined)}
        />
      )}
    </div>
  );
}

function sameName(items: System[], name: string): System | undefined {
  return items.find((each) => each.name.toLowerCase() === name.toLowerCase());
}

const WAYS = {
  none: "None",
  key: "A key in a header",
  bearer: "A bearer token",
  login: "User name and password",
} as const;
type Way = keyof typeof WAYS;

function schemesOf(way: Way, header: string): never[] {
  const given = {
    none: [],
    key: [{ type: "api-key", apiKey: { id: "key", name: header, in: "header" } }],
    bearer: [{ type: "api-key", apiKey: { id: "key", name: "Authorization", in: "header", prefix: "Bearer " } }],
    login: [{ type: "basic-auth", basicAuth: { id: "login" } }],
  };
  return given[way] as never[];
}

/** A system of an HTTP API of one's own: where it is, and how requests are authenticated. */
function OwnSystemDialog({
  name: inCode,
  onMade,
  onClose,
}: {
  name: string;
  onMade: (system: System) => void;
  onClose: () => void;
}) {
  const making = useNewSystem();
  const [name, setName] = useState(inCode);
  const [url, setUrl] = useState("https://");
  const [way, setWay] = useState<Way>("key");
  const [header, setHeader] = useState("X-API-Key");
  const domain = hostOf(url);
  return (
    <ActionDialog
      title="Your own API"
      verb="Add"
      working="Adding…"
      action={making}
      disabled={!domain}
      onSubmit={() =>
        making.mutate(
          { name, domain: domain ?? "", templateBaseUrl: url.trim(), authSchemeConfigs: schemesOf(way, header) },
          { onSuccess: onMade },
        )
      }
      onClose={onClose}
    >
      <label className="field">
        <span>Name</span>
        <input className="input" required value={name} onChange={(event) => setName(event.target.value)} />
      </label>
      <label className="field">
        <span>Base URL</span>
        <input className="input" type="url" required value={url} onChange={(event) => setUrl(event.target.value)} />
      </label>
      <label className="field">
        <span>How to authenticate</span>
        <select className="input" value={way} onChange={(event) => setWay(event.target.value as Way)}>
          {Object.entries(WAYS).map(([each, words]) => (
            <option key={each} value={each}>
              {words}
            </option>
          ))}
        </select>
      </label>
      {way === "key" && (
        <label className="field">
          <span>Header</span>
          <input className="input" required value={header} onChange={(event) => setHeader(event.target.value)} />
        </label>
      )}
      <p className="small dim">
        Other ways to authenticate, limits and lists: create it with <em>New system</em> on the page Systems.
      </p>
    </ActionDialog>
  );
}

function hostOf(url: string): string | undefined {
  try {
    return new URL(url.trim()).hostname || undefined;
  } catch {
    return undefined;
  }
}
