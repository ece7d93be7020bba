import { useState } from "react";
import { Link } from "wouter";
import { useSystem } from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { Badge, Card, Command, Facts, Failure, Loading, PageHead } from "../components/basics";
import { ChangesCard, OwnedNote } from "../components/Changes";
import { NewConnectionDialog } from "../components/NewConnectionDialog";
import { idOf, nameOf, planOf } from "../lib/credentials";
import { visible } from "../lib/text";

const TONES = { error: "bad", warning: "warn", info: "info" } as const;

/** A system: how one authenticates there, and a connection to it. */
export default function SystemPage({ system }: { system: string }) {
  const { namespace, canEdit } = useOrganisation();
  const [connecting, setConnecting] = useState(false);
  const found = useSystem(system);
  if (found.isPending) return <Loading what="the system" />;
  if (!found.data) return <Failure error={found.error} />;
  const data = found.data;
  return (
    <>
      <PageHead
        title={data.name}
        crumbs={<Link href={`/${namespace}/systems`}>Systems and connectors</Link>}
        sub={visible(data.domain)}
      >
        <Link className="button" href={`/${namespace}/connections?system=${data.id}`}>
          Connections
        </Link>
        {canEdit && (
          <button type="button" className="button primary" onClick={() => setConnecting(true)}>
            Connect…
          </button>
        )}
      </PageHead>
      <OwnedNote object={data.id} />
      <div className="split">
        <div className="stack">
          <Card title="Ways to authenticate" flush>
            {data.authSchemeConfigs.length === 0 && (
              <div className="card-body stack-s">
                <span className="dim">It has none: requests carry no credentials. Add one in the manifest.</span>
                <Command>kubectl explain system.spec.authSchemeConfigs</Command>
              </div>
            )}
            {data.authSchemeConfigs.map((each) => {
              const messages = Object.values(each).flatMap((one) =>
                typeof one === "object" && one !== null && "validationMessages" in one
                  ? (one.validationMessages ?? [])
                  : [],
              );
              return (
                <div key={idOf(each)} className="problem">
                  <div className="grow stack-s">
                    <strong>{nameOf(each)}</strong>
                    <span className="dim">
                      {planOf(each).authorise
                        ? "People authorise at the system."
                        : planOf(each)
                            .fields.map((field) => field.label)
                            .join(", ") || "Nothing is needed."}
                    </span>
                    {messages.map((one) => (
                      <div key={one.text} className="row">
                        <Badge tone={TONES[one.severity]}>{one.severity}</Badge>
                        <span className="break">{one.text}</span>
                      </div>
                    ))}
                  </div>
                </div>
              );
            })}
          </Card>
          <Card title="About">
            <Facts
              of={[
                ["System", <code key="id">{data.id}</code>],
                ["Base URL", data.templateBaseUrl],
                ["Requests at once", data.limits?.concurrent],
                ["Requests", data.limits?.requests && `${data.limits.requests} per ${data.limits.per ?? "second"}`],
                [
                  "Labels",
                  Object.entries(data.labels ?? {})
                    .map(([name, value]) => `${name}=${value}`)
                    .join(", "),
                ],
              ]}
            />
          </Card>
        </div>
        <ChangesCard object={data.id} />
      </div>
      {connecting && <NewConnectionDialog system={data} onClose={() => setConnecting(false)} />}
    </>
  );
}
