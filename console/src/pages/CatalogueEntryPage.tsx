import { useState } from "react";
import { Link, useLocation } from "wouter";
import {
  type CatalogueEntry,
  type CatalogueScheme,
  useCatalogueEntry,
  useSystemFromEntry,
  useSystemsOf,
} from "../api/catalogue";
import type { System } from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { Card, Command, Empty, Facts, Failure, Loading, PageHead } from "../components/basics";
import { Mark } from "../components/Mark";
import { NewConnectionDialog } from "../components/NewConnectionDialog";
import { inWords, PROOFS } from "../lib/catalogue";
import { useFilters } from "../lib/filters";
import { path, safeUrl } from "../lib/links";
import { visible } from "../lib/text";

/** A provider: what to fill in there, and the way to a connection. */
export default function CatalogueEntryPage({ entry }: { entry: string }) {
  const { namespace, canAdminister } = useOrganisation();
  const found = useCatalogueEntry(entry);
  const [made, setMade] = useState<{ system: System; scheme: string }>();
  const [, navigate] = useLocation();
  const [asked] = useFilters(["project", "environment", "name"] as const);
  const back = asked.project ? path(namespace, "projects", asked.project, "edit") : undefined;
  if (found.isPending) return <Loading what="the provider" />;
  if (!found.data) return <Failure error={found.error} />;
  const data = found.data;
  const ways = data.schemes.filter((each) => each.type !== "hmac");
  return (
    <>
      <PageHead
        title={data.name}
        crumbs={<Link href={path(namespace, "catalogue")}>Catalogue</Link>}
        sub={
          <>
            <Mark of={data.key} name={data.name} />
            <span>{data.summary}</span>
          </>
        }
      >
        <External url={data.docs}>API documentation</External>
      </PageHead>
      {back && (
        <p className="note">
          A project needs it{asked.name && ` under the name ${visible(asked.name)}`}.{" "}
          <Link className="link" href={back}>
            Back to the project
          </Link>
        </p>
      )}
      <div className="split">
        <div className="stack">
          {canAdminister ? (
            <ConnectCard entry={data} ways={ways} onMade={(system, scheme) => setMade({ system, scheme })} />
          ) : (
            <Empty title="An administrator adds systems">
              Ask an administrator of {namespace} to add {data.name}.
            </Empty>
          )}
          <ExistingCard entry={data} />
        </div>
        <div className="stack">
          <ProvenCard entry={data} />
          <ScopesCard schemes={ways} />
          <WebhooksCard entry={data} />
          <SourcesCard entry={data} />
        </div>
      </div>
      {made && (
        <NewConnectionDialog
          system={made.system}
          scheme={made.scheme}
          environment={asked.environment || undefined}
          name={asked.name || undefined}
          onMade={back ? () => navigate(back) : undefined}
          onClose={() => setMade(undefined)}
        />
      )}
    </>
  );
}

function ConnectCard({
  entry,
  ways,
  onMade,
}: {
  entry: CatalogueEntry;
  ways: CatalogueScheme[];
  onMade: (system: System, scheme: string) => void;
}) {
  const [chosen, setChosen] = useState("");
  const way = ways.find((each) => each.id === chosen) ?? ways[0];
  const [clientId, setClientId] = useState("");
  const [clientSecret, setClientSecret] = useState("");
  const adding = useSystemFromEntry(entry.key);
  if (!way) return null;
  const submit = async () => {
    const secret = way.needsClientSecret ? { clientSecret } : {};
    const clients = way.needsClient ? [{ scheme: way.id, clientId: clientId.trim(), ...secret }] : undefined;
    const system = await adding.mutateAsync({ clients }).catch(() => undefined);
    if (!system) return;
    setClientSecret("");
    onMade(system, way.id);
  };
  return (
    <Card title={`Connect ${entry.name}`}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {ways.length > 1 && (
          <fieldset className="stack-s">
            <legend>How to authenticate</legend>
            {ways.map((each) => (
              <label key={each.id} className="row">
                <input type="radio" name="way" checked={each.id === way.id} onChange={() => setChosen(each.id)} />
                <span>{each.description || inWords(each.type)}</span>
              </label>
            ))}
          </fieldset>
        )}
        {way.steps.length > 0 && (
          <div className="stack-s">
            <h3>At {entry.name}</h3>
            <ol className="steps">
              {way.steps.map((each) => (
                <li key={each}>{each}</li>
              ))}
            </ol>
            {way.docs && <External url={way.docs}>{entry.name}’s own instructions</External>}
          </div>
        )}
        {way.redirectUrlField && (
          <div className="field">
            <span>{way.redirectUrlField}</span>
            {way.redirectUrl ? (
              <Command>{way.redirectUrl}</Command>
            ) : (
              <p className="note warn">
                This installation has no public URL. Ask its operators to set TIELINE_PUBLIC_API_URL.
              </p>
            )}
          </div>
        )}
        {way.needsClient ? (
          <>
            <Field name="Client ID" hint={way.clientIdPlace} value={clientId} onChange={setClientId} type="text" />
            {way.needsClientSecret && (
              <Field
                name="Client secret"
                hint={way.clientSecretPlace}
                value={clientSecret}
                onChange={setClientSecret}
                type="password"
              />
            )}
          </>
        ) : (
          <p className="note">You enter the credential in the next step.</p>
        )}
        {entry.inputs.length > 0 && (
          <p className="note">Each connection asks for: {entry.inputs.map((each) => each.label).join(", ")}.</p>
        )}
        <Failure error={adding.error} />
        <div className="row">
          <button type="submit" className="button primary" disabled={adding.isPending}>
            {adding.isPending ? "Adding…" : "Add and connect…"}
          </button>
        </div>
      </form>
    </Card>
  );
}

function Field({
  name,
  hint,
  value,
  onChange,
  type,
}: {
  name: string;
  hint?: string | null;
  value: string;
  onChange: (value: string) => void;
  type: "text" | "password";
}) {
  return (
    <label className="field">
      <span>{name}</span>
      <input
        className="input"
        type={type}
        required
        autoComplete="off"
        spellCheck={false}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
      {hint && <span className="small dim">{hint}</span>}
    </label>
  );
}

function ExistingCard({ entry }: { entry: CatalogueEntry }) {
  const { namespace } = useOrganisation();
  const systems = useSystemsOf(entry.key);
  if (!systems.data?.length) return null;
  return (
    <Card title="Added before" flush>
      {systems.data.map((each) => (
        <Link key={each.id} className="problem" href={path(namespace, "systems", each.id)}>
          <strong>{each.name}</strong>
          <code className="dimmer">{each.id}</code>
        </Link>
      ))}
    </Card>
  );
}

function ProvenCard({ entry }: { entry: CatalogueEntry }) {
  return (
    <Card title="What works">
      {entry.proven.length === 0 ? (
        <p className="dim">No tests cover this provider yet. The facts below come from the documentation.</p>
      ) : (
        <>
          <ul className="steps">
            {entry.proven.map((each) => (
              <li key={each}>{PROOFS[each] ?? each}</li>
            ))}
          </ul>
          <p className="small dim">
            Shown by tests against an emulator of {entry.name}, not against {entry.name}.
          </p>
        </>
      )}
    </Card>
  );
}

function ScopesCard({ schemes }: { schemes: CatalogueScheme[] }) {
  const listed = schemes.filter((each) => each.scopes.length > 0);
  if (listed.length === 0) return null;
  return (
    <Card title="Scopes">
      {listed.map((scheme) => (
        <div key={scheme.id} className="stack-s">
          {scheme.templates.map((each) => (
            <p key={each.name}>
              <strong>{each.name}</strong>
              <br />
              <span className="dim">{each.description}: </span>
              <code>{each.scopes.join(" ")}</code>
            </p>
          ))}
          <Facts
            of={scheme.scopes.map((each) => [
              each.name,
              `${each.description}${each.default ? " (requested by default)" : ""}`,
            ])}
          />
        </div>
      ))}
    </Card>
  );
}

function WebhooksCard({ entry }: { entry: CatalogueEntry }) {
  const { webhooks } = entry;
  if (!webhooks) return null;
  return (
    <Card title="Webhooks" aside={<External url={webhooks.docs}>Documentation</External>}>
      <ol className="steps">
        {webhooks.steps.map((each) => (
          <li key={each}>{each}</li>
        ))}
      </ol>
      <p className="small dim">
        Store the webhook’s secret in a separate connection with the auth scheme <code>{webhooks.scheme}</code>.
      </p>
    </Card>
  );
}

const VERIFIED: Record<string, string> = {
  documentation: "read in the documentation",
  secondary: "read in another description",
  memory: "from memory, not verified",
};

function SourcesCard({ entry }: { entry: CatalogueEntry }) {
  return (
    <Card title="Where this comes from" flush>
      {entry.sources.map((each) => (
        <div key={`${each.url}${each.facts.join()}`} className="problem">
          <div className="grow">
            <External url={each.url}>{each.facts.map(inWords).join(", ")}</External>
            <div className="small dim">
              {VERIFIED[each.verified]} on {each.date}
            </div>
          </div>
        </div>
      ))}
    </Card>
  );
}

function External({ url, children }: { url: string; children: React.ReactNode }) {
  const target = safeUrl(url);
  if (!target) return <span>{children}</span>;
  return (
    <a className="link" href={target} target="_blank" rel="noreferrer">
      {children}
    </a>
  );
}
