import { useEffect, useId, useState } from "react";
import { limitsOf, propertiesOf, type Schema, widgetOf } from "../lib/schema";

type Values = Record<string, unknown>;

/** A form made from a JSON Schema of an object. `problems` are what the API says of a field, by its path. */
export function SchemaForm({
  schema,
  values,
  problems,
  onChange,
  at = "",
}: {
  schema: Schema;
  values: Values;
  problems: Map<string, string>;
  onChange: (values: Values) => void;
  at?: string;
}) {
  return propertiesOf(schema).map(([name, each]) => {
    const path = at ? `${at}.${name}` : name;
    return (
      <Entry
        key={name}
        name={name}
        path={path}
        schema={each}
        required={schema.required?.includes(name) === true}
        value={values[name]}
        problems={problems}
        onChange={(value) => onChange({ ...values, [name]: value })}
      />
    );
  });
}

interface EntryProps {
  name: string;
  path: string;
  schema: Schema;
  required: boolean;
  value: unknown;
  problems: Map<string, string>;
  onChange: (value: unknown) => void;
}

function Entry(props: EntryProps) {
  const { name, path, schema, required, value, problems } = props;
  const id = useId();
  const problem = problems.get(path);
  const hints = [schema.description, limitsOf(schema), defaultOf(schema)].filter(Boolean).join(" · ");
  if (widgetOf(schema) === "group") {
    return (
      <fieldset className="group">
        <legend>
          {schema.title ?? name}
          {required && " *"}
        </legend>
        {hints && <span className="small dim">{hints}</span>}
        <SchemaForm
          schema={schema}
          values={typeof value === "object" && value !== null ? (value as Values) : {}}
          problems={problems}
          onChange={props.onChange}
          at={path}
        />
      </fieldset>
    );
  }
  return (
    <div className="field">
      <div className="row">
        <label htmlFor={id}>
          {schema.title ?? name}
          {required && " *"}
        </label>
        {!required && value !== undefined && (
          <button type="button" className="button small quiet right" onClick={() => props.onChange(undefined)}>
            Unset <span className="sr">{schema.title ?? name}</span>
          </button>
        )}
      </div>
      <Input {...props} id={id} />
      {hints && (
        <span className="small dim" id={`${id}-hint`}>
          {hints}
        </span>
      )}
      {problem && (
        <span className="note bad" role="alert">
          {problem}
        </span>
      )}
    </div>
  );
}

function defaultOf(schema: Schema): string | undefined {
  return schema.default === undefined ? undefined : `${JSON.stringify(schema.default)} when it is not set`;
}

function Input({ id, name, schema, value, onChange }: EntryProps & { id: string }) {
  switch (widgetOf(schema)) {
    case "boolean":
      return (
        <select
          id={id}
          className="input"
          value={value === undefined ? "" : String(value)}
          onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value === "true")}
        >
          <option value="">not set</option>
          <option value="true">yes</option>
          <option value="false">no</option>
        </select>
      );
    case "choice":
      return (
        <select
          id={id}
          className="input"
          value={typeof value === "string" ? value : ""}
          onChange={(event) => onChange(event.target.value || undefined)}
        >
          <option value="">not set</option>
          {(schema.enum as string[]).map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      );
    case "number":
      return (
        <input
          id={id}
          className="input"
          type="number"
          step={schema.type === "integer" ? 1 : "any"}
          value={typeof value === "number" ? value : ""}
          onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.valueAsNumber)}
        />
      );
    case "text":
      return (
        <input
          id={id}
          className="input"
          autoComplete="off"
          type={schema.format === "password" ? "password" : "text"}
          value={typeof value === "string" ? value : ""}
          onChange={(event) => onChange(event.target.value)}
        />
      );
    case "list":
      return (
        <textarea
          id={id}
          className="input"
          rows={3}
          placeholder="One a line"
          value={Array.isArray(value) ? value.join("\n") : ""}
          onChange={(event) => onChange(event.target.value === "" ? [] : event.target.value.split("\n"))}
        />
      );
    default:
      return <JsonInput id={id} name={name} value={value} onChange={onChange} />;
  }
}

function JsonInput({
  id,
  name,
  value,
  onChange,
}: {
  id: string;
  name: string;
  value: unknown;
  onChange: (value: unknown) => void;
}) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, null, 2));
  const [wrong, setWrong] = useState(false);
  useEffect(() => {
    if (value === undefined) setText("");
  }, [value]);
  const enter = (entered: string, element: HTMLTextAreaElement) => {
    setText(entered);
    try {
      onChange(entered.trim() ? JSON.parse(entered) : undefined);
      element.setCustomValidity("");
      setWrong(false);
    } catch {
      element.setCustomValidity("Invalid JSON");
      setWrong(true);
    }
  };
  return (
    <>
      <textarea
        id={id}
        className="input"
        rows={4}
        spellCheck={false}
        placeholder="JSON"
        aria-invalid={wrong}
        value={text}
        onChange={(event) => enter(event.target.value, event.target)}
      />
      {wrong && <span className="small dim">{name} is no JSON yet.</span>}
    </>
  );
}
