import { type FormEvent, useState } from "react";
import { type EffectiveEnvVariable, useEnvironmentConfig } from "../api/environments";
import type { Environment, Project } from "../api/projects";
import { useOrganisation } from "../app/organisation";
import { type EnvRow, envOf, namesTwice, newRow, problemOf, rowsOf } from "../lib/env";
import { visible } from "../lib/text";
import { Card, Failure } from "./basics";
import { problemsOf } from "./fields";
import { useToast } from "./Toasts";

const NAME = "[A-Za-z_][A-Za-z0-9_]*";

/** The environment variables of an environment's pods: plain values, and keys of Secrets. */
export function EnvCard({ project, environment }: { project: Project; environment: Environment }) {
  const env = environment.config.env ?? [];
  // The form resets when the variables change on the server.
  const stored = JSON.stringify(env);
  return <EnvForm key={stored} env={env} project={project} environment={environment} />;
}

function EnvForm({
  env,
  project,
  environment,
}: {
  env: EffectiveEnvVariable[];
  project: Project;
  environment: Environment;
}) {
  const { canEdit } = useOrganisation();
  const say = useToast();
  const change = useEnvironmentConfig(project.id, environment.id);
  const [rows, setRows] = useState(() => rowsOf(env));
  const own = rowsOf(env);
  const inherited = env.filter((each) => each.inherited);
  const changed = JSON.stringify(envOf(rows)) !== JSON.stringify(envOf(own));
  const twice = namesTwice(rows);
  const problems = problemsOf(change.error);
  const edit = (row: EnvRow) => setRows(rows.map((each) => (each.id === row.id ? row : each)));
  const save = (event: FormEvent) => {
    event.preventDefault();
    change.mutate(
      { env: envOf(rows) },
      { onSuccess: () => say("Environment variables saved. Pods restart one by one.") },
    );
  };
  return (
    <Card title="Environment variables">
      <form className="stack-s" onSubmit={save}>
        {rows.length === 0 && inherited.length === 0 && <span className="dim">None.</span>}
        {inherited.map((each) => (
          <div key={each.name} className="row wrap dim">
            <code>{each.name}</code>
            <span className="break">
              {each.valueFrom
                ? `from Secret ${each.valueFrom.secretKeyRef.name}, key ${each.valueFrom.secretKeyRef.key}`
                : visible(each.value)}
            </span>
            <span className="badge plain">from the project</span>
          </div>
        ))}
        {rows.map((row, at) => (
          <EnvLine
            key={row.id}
            row={row}
            number={at + 1}
            problem={problemOf(problems, at)}
            readOnly={!canEdit}
            onChange={edit}
            onRemove={() => setRows(rows.filter((each) => each.id !== row.id))}
          />
        ))}
        {rows.some((each) => each.kind === "secret") && (
          <p className="small dim">
            Code can read Secrets of type <code>tieline.dev/credential</code> with the label{" "}
            <code>tieline.dev/expose-to-code</code>. All users who can view the project can read plain values.
          </p>
        )}
        {twice.length > 0 && (
          <p className="note bad" role="alert">
            Duplicate names: {twice.join(", ")}
          </p>
        )}
        <Failure error={change.error} />
        {canEdit && (
          <div className="row">
            <button type="button" className="button small" onClick={() => setRows([...rows, newRow(rows)])}>
              Add a variable
            </button>
            <button
              type="submit"
              className="button small primary"
              disabled={!changed || twice.length > 0 || change.isPending}
            >
              Save the environment variables
            </button>
          </div>
        )}
      </form>
    </Card>
  );
}

function EnvLine({
  row,
  number,
  problem,
  readOnly,
  onChange,
  onRemove,
}: {
  row: EnvRow;
  number: number;
  problem?: string;
  readOnly: boolean;
  onChange: (row: EnvRow) => void;
  onRemove: () => void;
}) {
  const shared = (name: "name" | "value" | "secret" | "key", label: string) => ({
    className: "input grow mono",
    "aria-label": `${label} of variable ${number}`,
    placeholder: label,
    autoComplete: "off",
    spellCheck: false,
    readOnly,
    value: row[name],
    onChange: (event: { target: { value: string } }) => onChange({ ...row, [name]: event.target.value }),
  });
  return (
    <fieldset className="group" aria-label={`Variable ${row.name || number}`}>
      <div className="row wrap">
        <input {...shared("name", "Name")} required pattern={NAME} title="Letters, digits and _" />
        <select
          className="input"
          aria-label={`Kind of variable ${number}`}
          disabled={readOnly}
          value={row.kind}
          onChange={(event) => onChange({ ...row, kind: event.target.value === "secret" ? "secret" : "plain" })}
        >
          <option value="plain">Plain</option>
          <option value="secret">From a Secret</option>
        </select>
        {row.kind === "plain" ? (
          <input {...shared("value", "Value")} maxLength={4096} />
        ) : (
          <>
            <input {...shared("secret", "Secret")} required />
            <input {...shared("key", "Key")} required />
          </>
        )}
        {!readOnly && (
          <button
            type="button"
            className="button small quiet"
            aria-label={`Remove variable ${row.name || number}`}
            onClick={onRemove}
          >
            Remove
          </button>
        )}
      </div>
      {problem && (
        <span className="note bad" role="alert">
          {visible(problem)}
        </span>
      )}
    </fieldset>
  );
}
