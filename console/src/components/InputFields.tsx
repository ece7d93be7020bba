import { useId } from "react";
import { type Input, isRequired, labelOf, valueIn } from "../lib/inputs";

/** The inputs of a system: which shop, or which tenant, a connection is for. */
export function InputFields({
  inputs,
  values,
  onChange,
}: {
  inputs: Input[];
  values: Record<string, string>;
  onChange: (values: Record<string, string>) => void;
}) {
  const id = useId();
  return inputs.map((input) => {
    const { name, description, example, suffix } = input;
    const field = `${id}-${name}`;
    const hint = [description, example && `For example: ${example}`].filter(Boolean).join(" ");
    return (
      <div key={name} className="field">
        <label htmlFor={field}>
          {labelOf(input)}
          {!isRequired(input) && " (optional)"}
        </label>
        <div className="row">
          <input
            id={field}
            className="input grow"
            autoComplete="off"
            autoCapitalize="off"
            spellCheck={false}
            required={isRequired(input)}
            aria-describedby={`${field}-hint`}
            value={values[name] ?? ""}
            onChange={(event) => onChange({ ...values, [name]: event.target.value })}
            onBlur={(event) => onChange({ ...values, [name]: valueIn(event.target.value, suffix ?? "") })}
          />
          {suffix && <span className="dim">{suffix}</span>}
        </div>
        <div id={`${field}-hint`} className="small dim">
          {hint}
        </div>
      </div>
    );
  });
}
