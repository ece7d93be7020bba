import { useState } from "react";
import { Link } from "wouter";
import { type System, useSystem, useSystemDeletion } from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { ActionDialog } from "../components/ActionDialog";
import { Badge, Card, Facts, Failure, Loading, PageHead } from "../components/basics";
import { ChangesCard, OwnedNote } from "../components/Changes";
import { SystemMark } from "../components/Mark";
import { NewConnectionDialog } from "../components/NewConnectionDialog";
import { SchemeDeletionDialog, SchemeDialog } from "../components/SchemeForm";
import { idOf, nameOf, planOf } from "../lib/credentials";
import { useLeave } from "../lib/leaving";
import { path } from "../lib/links";
import { visible } from "../lib/text";

const TONES = { error: "bad", warning: "warn", info: "info" } as const;

/** A system: how one authenticates there, and a connection to it. */
export default function SystemPage({ system }: { system: string }) {
  const { namespace, canEdit, canAdminister } = useOrganisation();
  const [scheme, setScheme] = useState<System["authSchemeConfigs"][number] | "new">();
  const [dropping, setDropping] = useState<System["authSchemeConfigs"][number]>();
  const [deleting, setDeleting] = useState(false);
  const [connecting, setConnecting] = useState(false);
  const found = useSystem(system);
  if (found.isPending) return <Loading what="the system" />;
  if (!found.data) return <Failure error={found.error} />;
  const data = found.data;
  return (
    <>
      <PageHead
        title={data.name}
        mark={<SystemMark system={data} />}
        crumbs={<Link href={`/${namespace}/systems`}>Systems and connectors</Link>}
        sub={visible(data.domain)}
      >
        <Link className="button" href={`/${namespace}/connections?system=${data.id}`}>
          Connections
        </Link>
        {canAdminister && (
          <>
            <Link className="button" href={path(namespace, "systems", data.id, "edit")}>
              Change
            </Link>
            <button type="button" className="button danger" onClick={() => setDeleting(true)}>
              Delete…
            </button>
          </>
        )}
        {canEdit && (
          <button type="button" className="button primary" onClick={() => setConnecting(true)}>
            Connect…
          </button>
        )}
      </PageHead>
      <OwnedNote object={data.id} />
      <div className="split">
        <div className="stack">
          <Card
            title="Ways to authenticate"
            flush
            aside={
              canAdminister && (
                <button type="button" className="button small" onClick={() => setScheme("new")}>
                  Add…
                </button>
              )
            }
          >
            {data.authSchemeConfigs.length === 0 && (
              <div className="card-body dim">None: requests carry no credentials.</div>
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
                        ? "Users sign in at the system."
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
                  {canAdminister && (
                    <div className="row">
                      <button
                        type="button"
                        className="button small"
                        aria-label={`Change ${nameOf(each)}…`}
                        onClick={() => setScheme(each)}
                      >
                        Change…
                      </button>
                      <button
                        type="button"
                        className="button small quiet danger"
                        aria-label={`Delete ${nameOf(each)}…`}
                        onClick={() => setDropping(each)}
                      >
                        Delete…
                      </button>
                    </div>
                  )}
                </div>
              );
            })}
          </Card>
          <Card title="About">
            <Facts
              of={[
                ["System", <code key="id">{data.id}</code>],
                ["Base URL", data.templateBaseUrl],
                ["Inputs", (data.inputs ?? []).map((each) => each.label || each.name).join(", ")],
                ["Check request", data.check?.path && `${data.check.method ?? "GET"} ${data.check.path}`],
                ["Concurrent requests", data.limits?.concurrent],
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
      {scheme && (
        <SchemeDialog
          system={data}
          scheme={scheme === "new" ? undefined : scheme}
          onClose={() => setScheme(undefined)}
        />
      )}
      {dropping && (
        <SchemeDeletionDialog
          system={data}
          scheme={dropping}
          id={idOf(dropping)}
          onClose={() => setDropping(undefined)}
        />
      )}
      {deleting && <DeletionDialog system={data} onClose={() => setDeleting(false)} />}
      {connecting && <NewConnectionDialog system={data} onClose={() => setConnecting(false)} />}
    </>
  );
}

function DeletionDialog({ system, onClose }: { system: System; onClose: () => void }) {
  const { namespace } = useOrganisation();
  const leave = useLeave();
  const deletion = useSystemDeletion(system.id);
  const submit = () =>
    deletion.mutate(undefined, {
      onSuccess: () => leave(path(namespace, "systems")),
      close: onClose,
    });
  return (
    <ActionDialog
      title={`Delete ${system.name}`}
      verb="Delete"
      danger
      action={deletion}
      onSubmit={submit}
      onClose={onClose}
    >
      <p>
        Its auth schemes and client secrets are deleted. You cannot delete a system that environments or connections
        use.
      </p>
    </ActionDialog>
  );
}
