import { useState } from "react";
import { ApiError } from "../api/client";
import { type Activation, useVariables, useVariablesSchema } from "../api/users";
import { changedValues, propertiesOf, type Schema, unsetNames } from "../lib/schema";
import { ActionDialog } from "./ActionDialog";
import { Loading } from "./basics";
import { SchemaForm } from "./SchemaForm";
import { useToast } from "./Toasts";

/** A user's variables, as a form of the project's schema. */
export function VariablesDialog({
  activation,
  project,
  onClose,
}: {
  activation: Activation;
  project: string;
  onClose: () => void;
}) {
  const schema = useVariablesSchema(project);
  const change = useVariables(activation.environment.id, activation.id);
  const say = useToast();
  const [values, setValues] = useState<Record<string, unknown>>(activation.dynamicVariables);
  const changes = changedValues(activation.dynamicVariables, values);
  const unset = unsetNames(activation.dynamicVariables, values);
  const count = Object.keys(changes).length + unset.length;
  const submit = () => {
    change.mutate(
      { values: changes, unset },
      {
        onSuccess: () => say("The variables are saved. Pods use them within seconds."),
        close: onClose,
      },
    );
  };
  const shown = schema.data as Schema | undefined;
  const problems = new Map(
    change.error instanceof ApiError ? change.error.fields.map((each) => [each.field, each.message]) : [],
  );
  return (
    <ActionDialog
      title="Variables"
      verb={count === 1 ? "Save one change" : `Save ${count} changes`}
      wide
      action={{ isPending: change.isPending, error: schema.error ?? change.error }}
      disabled={count === 0}
      onSubmit={submit}
      onClose={onClose}
    >
      {schema.isPending && <Loading what="the schema" />}
      {shown && propertiesOf(shown).length === 0 && <p className="note">The project's schema has no variables.</p>}
      {shown && <SchemaForm schema={shown} values={values} problems={problems} onChange={setValues} />}
    </ActionDialog>
  );
}
