import { useState } from "react";
import { Link, useLocation } from "wouter";
import { useNewConnection } from "../api/connections";
import { type ProjectItem, useProjects } from "../api/projects";
import type { System } from "../api/systems";
import { type Template, useNewTemplate, useTemplates } from "../api/templates";
import { useOrganisation } from "../app/organisation";
import { credentialOf, idOf, nameOf, planOf } from "../lib/credentials";
import { inputsOf, valuesOf, variablesOf } from "../lib/inputs";
import { path } from "../lib/links";
import { visible } from "../lib/text";
import { ActionDialog } from "./ActionDialog";
import { CredentialFields } from "./CredentialFields";
import { SelectField, TextField } from "./fields";
import { InputFields } from "./InputFields";

/** Makes a connection for a system of an environment; for a `system` that the environment lacks, adds it. */
export function NewConnectionDialog({
  system,
  scheme: wanted = "",
  environment = "",
  name: givenName,
  onMade,
  onClose,
}: {
  system?: System;
  /** The id of the auth scheme that is chosen at first. */
  scheme?: string;
  /** The id of the environment that is chosen at first. */
  environment?: string;
  /** The name that the environment's code uses for the system; without it one is made of the system's. */
  name?: string;
  /** Called in place of opening the page of the connection. */
  onMade?: () => void;
  onClose: () => void;
}) {
  const { namespace } = useOrganisation();
  const [, navigate] = useLocation();
  const projects = useProjects();
  const places = placesOf(projects.data ?? []);
  const [place, setPlace] = useState(environment);
  const at = places.find((each) => each.environment === place) ?? places[0];
  const templates = useTemplates(at?.project, at?.environment);
  const nameInCode = givenName ?? codeName(system?.name ?? "");
  const found = (templates.data ?? []).filter(
    (each) => (!system || each.id === system.id) && (!givenName || each.name === givenName),
  );
  const [chosen, setChosen] = useState("");
  const template = found.find((each) => each.connectionTemplateId === chosen) ?? found[0];
  const schemes = (template?.authSchemeConfigs ?? system?.authSchemeConfigs ?? []) as Template["authSchemeConfigs"];
  const [scheme, setScheme] = useState(wanted);
  const used = schemes.find((each) => idOf(each) === scheme) ?? schemes[0];
  const plan = planOf(used);
  const [typed, setName] = useState<string>();
  const name = typed ?? system?.name ?? template?.name ?? "";
  const [user, setUser] = useState("");
  const [values, setValues] = useState<Record<string, string>>({});
  const inputs = template ? (template.inputs ?? []) : inputsOf(system);
  const [entered, setEntered] = useState<Record<string, string>>({});
  const filled = { ...valuesOf(inputs), ...entered };
  const making = useNewConnection();
  const adding = useNewTemplate();

  const submit = async () => {
    if (!at) return;
    const credentials = used ? [{ authSchemeConfig: used, credential: credentialOf(plan, values) }] : [];
    try {
      const target =
        template ??
        (system &&
          (await adding.mutateAsync({
            project: at.project,
            systemId: system.id,
            name: nameInCode,
            environmentId: at.environment,
            dynamic: false,
          })));
      if (!target?.connectionTemplateId) return;
      const externalId = user.trim() || undefined;
      const made = await making.mutateAsync({
        template: target.connectionTemplateId,
        name,
        externalId,
        credentials,
        variables: inputs.length > 0 ? variablesOf(inputs, filled) : undefined,
      });
      onClose();
      if (onMade) onMade();
      else navigate(path(namespace, "connections", made.id));
    } catch {
      // The mutations have the error, which is shown below.
    }
  };
  return (
    <ActionDialog
      title={system || givenName ? `Connect ${visible(system?.name ?? givenName)}` : "New connection"}
      verb="Create"
      working="Creating…"
      action={{
        isPending: making.isPending || adding.isPending,
        error: templates.error ?? adding.error ?? making.error,
      }}
      disabled={!at || !(template || system)}
      onSubmit={() => void submit()}
      onClose={onClose}
    >
      {projects.data?.length === 0 && (
        <p className="note">
          A connection belongs to an environment of a project, and there is no project yet.{" "}
          <Link className="link" href={path(namespace, "new-project")}>
            New project
          </Link>
        </p>
      )}
      <SelectField
        label="Environment"
        value={at?.environment ?? ""}
        onChange={setPlace}
        options={places.map((each) => [each.environment, each.name])}
      />
      {found.length > 0 && (
        <SelectField
          label="System (the name that code uses)"
          value={template?.connectionTemplateId ?? ""}
          onChange={setChosen}
          options={found.map((each) => [
            each.connectionTemplateId ?? "",
            `${each.name}${each.dynamic ? " (each user's own)" : ""} · ${each.domain}`,
          ])}
        />
      )}
      {templates.data && found.length === 0 && (
        <p className="note">
          {system
            ? `The environment gets ${system.name} under the name ${nameInCode}.`
            : "This environment has no system yet. Open one under Systems, and connect it from there."}
        </p>
      )}
      <TextField label="Name" value={name} onChange={setName} required />
      {template?.dynamic && <TextField label="End user (your ID)" value={user} onChange={setUser} />}
      <InputFields inputs={inputs} values={filled} onChange={setEntered} />
      {schemes.length > 1 && (
        <SelectField
          label="How to authenticate"
          value={used ? idOf(used) : ""}
          onChange={setScheme}
          options={schemes.map((each) => [idOf(each), nameOf(each)])}
        />
      )}
      {(template || system) && <CredentialFields plan={plan} values={values} onChange={setValues} />}
    </ActionDialog>
  );
}

function placesOf(projects: ProjectItem[]) {
  return projects.flatMap((project) =>
    project.environments.map((each) => ({
      project: project.id,
      environment: each.id,
      name: `${project.name} · ${each.name}`,
    })),
  );
}

/** A name by which code can refer to a system. */
export function codeName(name: string): string {
  return (
    name
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "-")
      .replace(/^-|-$/g, "")
      .slice(0, 60) || "system"
  );
}
