import type { Schemas } from "../api/client";

type Variable = Schemas["EffectiveEnvVariable"];

/** A row of the form for environment variables. */
export interface EnvRow {
  /** Identifies the row while its name changes. */
  id: number;
  name: string;
  kind: "plain" | "secret";
  value: string;
  secret: string;
  key: string;
}

/** The variables that an environment has of its own. */
export function rowsOf(env: Variable[] | null | undefined): EnvRow[] {
  return (env ?? [])
    .filter((each) => !each.inherited)
    .map((each, id) => {
      const secret = each.valueFrom?.secretKeyRef;
      return {
        id,
        name: each.name,
        kind: secret ? ("secret" as const) : ("plain" as const),
        value: each.value ?? "",
        secret: secret?.name ?? "",
        key: secret?.key ?? "",
      };
    });
}

/** A new row, after these. */
export function newRow(rows: EnvRow[]): EnvRow {
  const id = Math.max(-1, ...rows.map((each) => each.id)) + 1;
  return { id, name: "", kind: "plain", value: "", secret: "", key: "" };
}

/** The variables of a request. */
export function envOf(rows: EnvRow[]): Schemas["EnvVariable"][] {
  return rows.map(({ name, kind, value, secret, key }) =>
    kind === "secret"
      ? { name: name.trim(), valueFrom: { secretKeyRef: { name: secret.trim(), key: key.trim() } } }
      : { name: name.trim(), value },
  );
}

/** The names that are given twice. */
export function namesTwice(rows: EnvRow[]): string[] {
  const names = rows.map((each) => each.name.trim()).filter(Boolean);
  return [...new Set(names.filter((each, at) => names.indexOf(each) !== at))];
}

/** The error that the API reports for a row, by its index. */
export function problemOf(problems: Map<string, string>, at: number): string | undefined {
  for (const [field, message] of problems) {
    if (field === `env[${at}]` || field.startsWith(`env[${at}].`)) return message;
  }
  return undefined;
}
