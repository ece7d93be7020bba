import { type FormEvent, useState } from "react";
import { Link } from "wouter";
import { type System, useNewSystem, useSystem, useSystemUpdate } from "../api/systems";
import { useOrganisation } from "../app/organisation";
import { Card, Empty, Failure, Loading, PageHead } from "../components/basics";
import { OwnedNote } from "../components/Changes";
import { CheckField, NumberField, problemsOf, SelectField, TextField } from "../components/fields";
import { SchemeFields } from "../components/SchemeForm";
import { useToast } from "../components/Toasts";
import { useLeave } from "../lib/leaving";
import { path } from "../lib/links";
import { newDraft, schemeOf } from "../lib/schemes";
import {
  changesOf,
  draftOfSystem,
  EMPTY,
  type InputRow,
  newInput,
  type SystemDraft,
  systemOf,
} from "../lib/systemForm";

const MOST_INPUTS = 20;

/** Makes a system that the catalogue does not have, or changes one. */
export default function SystemFormPage({ system }: { system?: string }) {
  const { namespace, canAdminister } = useOrganisation();
  const found = useSystem(system ?? "");
  const title = system ? `Change ${found.data?.name ?? "the system"}` : "New system";
  if (!canAdminister) {
    return <Empty title="Only administrators change systems">Ask an administrator of your organisation.</Empty>;
  }
  if (system && found.isPending) return <Loading what="the system" />;
  if (system && !found.data) return <Failure error={found.error} />;
  return (
    <>
      <PageHead
        title={title}
        crumbs={
          <>
            <Link href={`/${namespace}/systems`}>Systems and connectors</Link>
            {found.data && <Link href={path(namespace, "systems", found.data.id)}>{found.data.name}</Link>}
          </>
        }
        sub={
          system ? undefined : (
            <span>
              For known providers, use the{" "}
              <Link className="link" href={`/${namespace}/catalogue`}>
                catalogue
              </Link>
            </span>
          )
        }
      />
      {found.data && <OwnedNote object={found.data.id} />}
      <Form key={found.data?.id} stored={found.data} />
    </>
  );
}

function Form({ stored: found }: { stored?: System }) {
  // Saving sends the difference to the system as it was when the form opened: changes by others are kept.
  const [stored] = useState(found);
  const { namespace } = useOrganisation();
  const leave = useLeave();
  const say = useToast();
  const making = useNewSystem();
  const update = useSystemUpdate(stored?.id ?? "");
  const [draft, setDraft] = useState<SystemDraft>(() => (stored ? draftOfSystem(stored) : EMPTY));
  const [scheme, setScheme] = useState(() => newDraft("api-key"));
  const [authenticates, setAuthenticates] = useState(true);
  const [wrong, setWrong] = useState<Error>();
  const error = wrong ?? making.error ?? update.error;
  const problems = problemsOf(making.error ?? update.error);
  /** What binds a field of the form to the draft, and to what the API reports about it. */
  const field = <Name extends keyof SystemDraft>(name: Name, path: string = name) => ({
    value: draft[name],
    problem: problems.get(path),
    onChange: (value: SystemDraft[Name]) => setDraft({ ...draft, [name]: value }),
  });
  const done = (id: string) => {
    say(stored ? "System saved." : "System created. Connect it next.");
    leave(path(namespace, "systems", id));
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setWrong(undefined);
    try {
      const graphqlPath = draft.graphqlPath.trim();
      if (stored) {
        // Unchanged fields are omitted: a connector or Git may own them.
        update.mutate(changesOf(draft, stored), { onSuccess: () => done(stored.id) });
      } else {
        making.mutate(
          {
            ...systemOf(draft),
            ...(graphqlPath ? { graphqlPath } : {}),
            authSchemeConfigs: authenticates ? [schemeOf(scheme)] : [],
          },
          { onSuccess: (made) => done(made.id) },
        );
      }
    } catch (reason) {
      setWrong(reason instanceof SyntaxError ? new Error("The claims are not valid JSON.") : (reason as Error));
    }
  };
  return (
    <form className="stack" onSubmit={submit}>
      <div className="split">
        <div className="stack">
          <Card title="General">
            <div className="stack-s">
              <TextField label="Name" required {...field("name")} />
              <TextField
                label="Base URL"
                required={!stored?.connectorRef}
                placeholder="https://api.example.com/v1"
                hint="Names in curly braces are variables, as in https://{shop}.example.com"
                {...field("baseUrl", "templateBaseUrl")}
              />
              <TextField
                label="Domain"
                required={false}
                hint="Default: the host of the base URL"
                {...field("domain")}
              />
              <TextField
                label="Values of variables"
                kind="lines"
                required={false}
                placeholder="version=2026-01"
                hint="NAME=VALUE, one per line. A connection can override them."
                {...field("variables")}
              />
            </div>
          </Card>
          <InputsCard rows={draft.inputs} onChange={field("inputs").onChange} />
        </div>
        <div className="stack">
          {!stored && (
            <Card title="Authentication">
              <div className="stack-s">
                <CheckField label="Requests need credentials" checked={authenticates} onChange={setAuthenticates} />
                {authenticates && <SchemeFields draft={scheme} onChange={setScheme} />}
                <p className="small dim">Add more ways to authenticate on the page of the system.</p>
              </div>
            </Card>
          )}
          <Card title="Check request">
            <div className="stack-s">
              <p className="small dim">Shows whether the system accepts the credentials of a connection.</p>
              <div className="pair">
                <SelectField
                  label="Method"
                  {...field("checkMethod")}
                  options={["GET", "HEAD", "OPTIONS", "POST"].map((each) => [each, each])}
                />
                <TextField
                  label="Path"
                  placeholder="/me"
                  hint="Below the base URL, such as /me"
                  {...field("checkPath", "check.path")}
                />
              </div>
              {draft.checkMethod === "POST" && (
                <TextField
                  label="Body, as JSON"
                  kind="lines"
                  required
                  placeholder='{"query": "{ viewer { id } }"}'
                  hint="This request is sent often. It must not change data."
                  {...field("checkBody", "check.body")}
                />
              )}
              <TextField
                label="Accepted statuses"
                placeholder="200 to 299"
                {...field("checkStatuses", "check.expect.statuses")}
              />
              <TextField label="Text that the response contains" {...field("checkContains")} />
            </div>
          </Card>
          <Card title="Limits and lists">
            <div className="stack-s">
              <p className="small dim">The limits of the system for each connection.</p>
              <NumberField label="Concurrent requests" min={1} {...field("concurrent", "limits.concurrent")} />
              <div className="pair">
                <NumberField label="Requests" min={1} {...field("requests", "limits.requests")} />
                <TextField
                  label="Per"
                  placeholder="1s"
                  pattern="[0-9]{1,5}[smh]"
                  title="A whole number with s, m or h, such as 10m"
                  {...field("per", "limits.per")}
                />
              </div>
              <TextField label="GraphQL path" placeholder="/graphql" {...field("graphqlPath")} />
              <TextField
                label="Pagination of lists, as JSON"
                kind="lines"
                placeholder='{"default": {"kind": "cursor", "items": "data", "next": "meta.next", "parameter": "cursor"}}'
                {...field("lists")}
              />
            </div>
          </Card>
        </div>
      </div>
      <Failure error={error} />
      <div className="row">
        <button type="submit" className="button primary" disabled={making.isPending || update.isPending}>
          {stored ? "Save" : "Create"}
        </button>
        <Link className="button" href={stored ? path(namespace, "systems", stored.id) : path(namespace, "systems")}>
          Cancel
        </Link>
      </div>
    </form>
  );
}

function InputsCard({ rows, onChange }: { rows: InputRow[]; onChange: (rows: InputRow[]) => void }) {
  const field = (row: InputRow, name: "name" | "label" | "description" | "example" | "suffix" | "hosts") => ({
    value: row[name],
    onChange: (value: string) =>
      onChange(rows.map((each) => (each.id === row.id ? { ...each, [name]: value } : each))),
  });
  return (
    <Card
      title="Inputs"
      aside={
        rows.length < MOST_INPUTS && (
          <button type="button" className="button small" onClick={() => onChange([...rows, newInput(rows)])}>
            Add an input
          </button>
        )
      }
    >
      <div className="stack-s">
        <p className="small dim">
          URL variables that users enter when they connect, such as the name of their shop.
        </p>
        {rows.map((row) => (
          <fieldset key={row.id} className="group">
            <legend>Input {row.name}</legend>
            <TextField
              label="Variable"
              required
              {...field(row, "name")}
              hint="The name in curly braces in the URL"
            />
            <TextField label="Label" {...field(row, "label")} />
            <TextField label="Description" {...field(row, "description")} />
            <TextField label="Example" {...field(row, "example")} />
            <TextField label="Suffix in the URL" placeholder=".example.com" {...field(row, "suffix")} />
            <TextField
              label="Allowed hosts"
              placeholder="*.example.com"
              hint="Separated by spaces. Required unless a fixed domain follows the variable"
              {...field(row, "hosts")}
            />
            <div>
              <button
                type="button"
                className="button small quiet"
                onClick={() => onChange(rows.filter((each) => each.id !== row.id))}
              >
                Remove {row.name || "this input"}
              </button>
            </div>
          </fieldset>
        ))}
      </div>
    </Card>
  );
}
