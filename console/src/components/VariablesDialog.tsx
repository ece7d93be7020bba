import { type FormEvent, useState } from "react";
import { ApiError } from "../api/client";
import { type Activation, useVariables, useVariablesSchema } from "../api/users";
import { changedValues, propertiesOf, type Schema } from "../lib/schema";
import { Failure, Loading } from "./basics";
import { Dialog } from "./Dialog";
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
  const count = Object.keys(changes).length;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change.mutate(changes, {
      onSuccess: () => {
        say("The variables are stored. Pods use them within seconds.");
        onClose();
      },
    });
  };
  const shown = schema.data as Schema | undefined;
  const problems = new Map(
    change.error instanceof ApiError ? change.error.fields.map((each) => [each.field, each.message]) : [],
  );
  return (
    <Dialog
      title="Variables"
      wide
      onClose={onClose}
      foot={
        <>
          <button type="button" className="button" onClick={onClose}>
            Close
          </button>
          <button
            type="submit"
            form="variables"
            className="button primary"
            disabled={count === 0 || change.isPending}
          >
            {count === 1 ? "Store one change" : `Store ${count} changes`}
          </button>
        </>
      }
    >
      {schema.isPending && <Loading what="the schema" />}
      {shown && propertiesOf(shown).length === 0 && <p className="note">The project's schema names no variable.</p>}
      {shown && (
        <form id="variables" className="stack" onSubmit={submit}>
          <SchemaForm schema={shown} values={values} problems={problems} onChange={setValues} />
        </form>
      )}
      <Failure error={schema.error ?? change.error} />
    </Dialog>
  );
}
