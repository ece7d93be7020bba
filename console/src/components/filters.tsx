import { useState } from "react";
import type { ProjectItem } from "../api/projects";

export function Choice({
  name,
  value,
  options,
  onChange,
}: {
  name: string;
  value: string;
  options: [string, string][];
  onChange: (value: string) => void;
}) {
  return (
    <select className="input" aria-label={name} value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">{`${name}: all`}</option>
      {value && !options.some(([each]) => each === value) && <option value={value}>{value}</option>}
      {options.map(([each, text]) => (
        <option key={each} value={each}>
          {text}
        </option>
      ))}
    </select>
  );
}

/** A filter that counts once it is typed: by Enter, or when it loses the focus. */
export function Typed({
  name,
  value,
  onChange,
  type = "text",
}: {
  name: string;
  value: string;
  onChange: (value: string) => void;
  type?: string;
}) {
  const [text, setText] = useState<string>();
  const done = () => {
    if (text !== undefined && text.trim() !== value) onChange(text.trim());
    setText(undefined);
  };
  return (
    <input
      className="input"
      type={type}
      size={12}
      aria-label={name}
      placeholder={name}
      value={text ?? value}
      onChange={(event) => setText(event.target.value)}
      onBlur={done}
      onKeyDown={(event) => event.key === "Enter" && done()}
    />
  );
}

interface Place {
  project: string;
  environment: string;
}

/** A project, and an environment of it or of all projects by its name. */
export function PlaceChoice({
  projects,
  filters,
  change,
}: {
  projects: ProjectItem[];
  filters: Place;
  change: (changes: Partial<Place>) => void;
}) {
  const chosen = projects.filter((each) => !filters.project || each.id === filters.project);
  const environments = [...new Set(chosen.flatMap((each) => each.environments.map((one) => one.name)))].sort();
  return (
    <>
      <Choice
        name="Project"
        value={filters.project}
        options={projects.map((each) => [each.id, each.name])}
        onChange={(project) => change({ project, environment: "" })}
      />
      <Choice
        name="Environment"
        value={filters.environment}
        options={environments.map((each) => [each, each])}
        onChange={(environment) => change({ environment })}
      />
    </>
  );
}

/** A filter that is set elsewhere, such as by a link, and can only be removed. */
export function Removable({ name, text, onRemove }: { name: string; text: string; onRemove: () => void }) {
  return (
    <button type="button" className="button small" onClick={onRemove} aria-label={`Remove the filter ${name}`}>
      {text} ×
    </button>
  );
}

export function NoMatch({ what, onClear }: { what: string; onClear: () => void }) {
  return (
    <div className="empty">
      <h2>No {what} match these filters</h2>
      <button type="button" className="button" onClick={onClear}>
        Clear the filters
      </button>
    </div>
  );
}
