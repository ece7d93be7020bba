import { type ReactNode, useId } from "react";
import { ApiError } from "../api/client";
import { visible } from "../lib/text";

/** What the API says of fields, by their paths. */
export function problemsOf(error: unknown): Map<string, string> {
  return new Map(error instanceof ApiError ? error.fields.map((each) => [each.field, each.message]) : []);
}

interface Shared {
  label: string;
  hint?: ReactNode;
  /** What the API says of the field. */
  problem?: string;
  required?: boolean;
}

/** The ids of what is said of a field. */
function described(id: string, { hint, problem }: Shared): string | undefined {
  return [hint && `${id}-hint`, problem && `${id}-problem`].filter(Boolean).join(" ") || undefined;
}

function Field({ id, label, hint, problem, required, children }: Shared & { id: string; children: ReactNode }) {
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {required === false && " (optional)"}
      </label>
      {children}
      {hint && (
        <span className="small dim" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {problem && (
        <span className="note bad" id={`${id}-problem`}>
          {visible(problem)}
        </span>
      )}
    </div>
  );
}

/** A line of text, several lines, or a secret. */
export function TextField({
  value,
  onChange,
  kind = "text",
  placeholder,
  pattern,
  title,
  maxLength,
  suggestions,
  ...shared
}: Shared & {
  value: string;
  onChange: (value: string) => void;
  /** What may be entered, among others. */
  suggestions?: readonly string[];
  kind?: "text" | "password" | "url" | "email" | "lines";
  placeholder?: string;
  pattern?: string;
  title?: string;
  maxLength?: number;
}) {
  const id = useId();
  const given = {
    id,
    className: "input",
    autoComplete: kind === "password" ? "new-password" : "off",
    spellCheck: false,
    required: shared.required,
    placeholder,
    maxLength,
    "aria-describedby": described(id, shared),
    "aria-invalid": shared.problem ? true : undefined,
    value,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  return (
    <Field id={id} {...shared}>
      {kind === "lines" ? (
        <textarea rows={3} {...given} />
      ) : (
        <input
          type={kind}
          pattern={pattern}
          title={title}
          list={suggestions ? `${id}-list` : undefined}
          {...given}
        />
      )}
      {suggestions && (
        <datalist id={`${id}-list`}>
          {suggestions.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
    </Field>
  );
}

/** A whole number, or none. */
export function NumberField({
  value,
  onChange,
  min,
  max,
  ...shared
}: Shared & {
  value: number | undefined;
  onChange: (value: number | undefined) => void;
  min?: number;
  max?: number;
}) {
  const id = useId();
  return (
    <Field id={id} {...shared}>
      <input
        id={id}
        className="input"
        type="number"
        step={1}
        min={min}
        max={max}
        required={shared.required}
        aria-describedby={described(id, shared)}
        value={value ?? ""}
        onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.valueAsNumber)}
      />
    </Field>
  );
}

export function SelectField({
  value,
  onChange,
  options,
  disabled,
  ...shared
}: Shared & {
  value: string;
  onChange: (value: string) => void;
  options: [string, string][];
  disabled?: boolean;
}) {
  const id = useId();
  return (
    <Field id={id} {...shared}>
      <select
        id={id}
        className="input"
        disabled={disabled}
        required={shared.required}
        aria-describedby={described(id, shared)}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      >
        {options.map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </Field>
  );
}

export function CheckField({
  label,
  checked,
  onChange,
  hint,
}: {
  label: string;
  checked: boolean;
  onChange: (checked: boolean) => void;
  hint?: ReactNode;
}) {
  const id = useId();
  return (
    <div className="row">
      <input
        id={id}
        type="checkbox"
        checked={checked}
        aria-describedby={hint ? `${id}-hint` : undefined}
        onChange={(event) => onChange(event.target.checked)}
      />
      <span>
        <label htmlFor={id}>{label}</label>
        {hint && (
          <span id={`${id}-hint`} className="small dim" style={{ display: "block" }}>
            {hint}
          </span>
        )}
      </span>
    </div>
  );
}
