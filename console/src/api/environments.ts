import type { Schemas } from "./client";
import type { Project } from "./projects";
import { useChange, useGet } from "./queries";
import type { VariablesChange } from "./users";

export type EnvVariable = Schemas["EnvVariable"];
export type EffectiveEnvVariable = Schemas["EffectiveEnvVariable"];
export type Config = Schemas["EnvironmentConfigUpdate"];

const PROJECT = "/projects/{project_id}";
const ENVIRONMENTS = "/projects/{project_id}/environments";
const VARIABLES = "/environments/{environment_id}/variables";

export type NewEnvironment =
  | { name: string }
  | { name: string; from: string; systems: boolean; variables: boolean };

/** Creates an environment, empty or as a copy of another. */
export function useNewEnvironment(project: string) {
  const at = { project_id: project };
  return useChange({
    change: (send, given: NewEnvironment): Promise<Project> =>
      "from" in given
        ? send("post", "/projects/{project_id}/environments/clone", {
            at,
            body: {
              oldEnvName: given.from,
              newEnvName: given.name,
              cloneSystems: given.systems,
              copyStaticUserVariables: given.variables,
            },
          })
        : send("post", ENVIRONMENTS, { at, body: { name: given.name } }),
    holds: [PROJECT, at],
    stale: [["/projects"]],
  });
}

export function useEnvironmentDeletion(project: string) {
  const at = { project_id: project };
  return useChange({
    change: (send, environment: string): Promise<Project> =>
      send("delete", "/projects/{project_id}/environments/{environment_id}", {
        at: { ...at, environment_id: environment },
      }),
    holds: [PROJECT, at],
    stale: [["/projects"]],
  });
}

/** Changes how an environment runs its code; what is left out stays. */
export function useEnvironmentConfig(project: string, environment: string) {
  return useChange({
    change: (send, body: Config) =>
      send("put", "/environments/{environment_id}/config", { at: { environment_id: environment }, body }),
    unsure: [[PROJECT, { project_id: project }]],
    stale: [["/projects"]],
  });
}

/** The variables of an environment's static activation. */
export function useStaticVariables(environment: string) {
  return useGet(VARIABLES, {
    at: { environment_id: environment },
    select: (found) => found as Record<string, unknown>,
  });
}

/** Changes variables of the static activation. */
export function useStaticVariablesChange(environment: string) {
  const at = { environment_id: environment };
  return useChange({
    change: (send, { values, unset }: VariablesChange) =>
      send("patch", VARIABLES, { at, query: unset.length > 0 ? { unset } : {}, body: values }),
    stale: [[VARIABLES, at]],
  });
}

/** Changes the name and the settings of a project; what is left out stays. */
export function useProjectUpdate(project: string) {
  const at = { project_id: project };
  return useChange({
    change: (send, body: Schemas["ProjectUpdate"]): Promise<Project> => send("put", PROJECT, { at, body }),
    holds: [PROJECT, at],
    stale: [["/projects"]],
  });
}

export function useProjectDeletion(project: string) {
  return useChange({
    change: (send) => send("delete", PROJECT, { at: { project_id: project } }),
    stale: [["/projects"]],
  });
}
