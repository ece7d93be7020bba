import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import type { ProjectItem } from "../api/projects";
import { isoOf, localOf, RANGES } from "../lib/ranges";
import { toggled, valuesOf } from "../lib/several";
import { inHours } from "../lib/time";

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

/** A filter of which several values can be chosen. */
export function Several({
  name,
  value,
  options,
  shown,
  onChange,
}: {
  name: string;
  value: string;
  options: readonly string[];
  /** What it says; the chosen values otherwise. */
  shown?: string;
  onChange: (value: string) => void;
}) {
  const element = useRef<HTMLDetailsElement>(null);
  const chosen = valuesOf(value);
  useEffect(() => {
    const close = ({ target }: Event) => {
      const details = element.current;
      if (details?.open && target instanceof Node && !details.contains(target)) details.open = false;
    };
    document.addEventListener("pointerdown", close);
    document.addEventListener("focusin", close);
    return () => {
      document.removeEventListener("pointerdown", close);
      document.removeEventListener("focusin", close);
    };
  }, []);
  const onKeyDown = (event: KeyboardEvent<HTMLDetailsElement>) => {
    if (event.key !== "Escape" || !event.currentTarget.open) return;
    event.currentTarget.open = false;
    event.currentTarget.querySelector("summary")?.focus();
  };
  return (
    <details className="several" ref={element} onKeyDown={onKeyDown}>
      <summary className="input cut">{`${name}: ${shown ?? (chosen.join(", ") || "all")}`}</summary>
      <fieldset className="card">
        <legend className="sr">{name}</legend>
        {options.map((each) => (
          <label key={each} className="row">
            <input
              type="checkbox"
              checked={chosen.includes(each)}
              onChange={() => onChange(toggled(value, each, options))}
            />
            {each}
          </label>
        ))}
      </fieldset>
    </details>
  );
}

interface TimeFilters {
  last: string;
  start: string;
  end: string;
}

const CUSTOM = "custom";
const DAY_HOURS = -24;

/** A range of time: the last hour, day or 7 days, or from one time to another. */
export function TimeChoice({
  filters: { last, start, end },
  change,
}: {
  filters: TimeFilters;
  change: (changes: TimeFilters) => void;
}) {
  const choose = (chosen: string) =>
    change(
      chosen === CUSTOM ? { last: "", start: inHours(DAY_HOURS), end: "" } : { last: chosen, start: "", end: "" },
    );
  const isCustom = !last && Boolean(start || end);
  return (
    <>
      <select
        className="input"
        aria-label="Time"
        value={isCustom ? CUSTOM : last}
        onChange={(event) => choose(event.target.value)}
      >
        <option value="">Time: all</option>
        {RANGES.map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
        <option value={CUSTOM}>from … to …</option>
      </select>
      {isCustom && (
        <>
          <TypedTime name="From" value={start} onChange={(from) => change({ last: "", start: from, end })} />
          <TypedTime name="To" value={end} onChange={(to) => change({ last: "", start, end: to })} />
        </>
      )}
    </>
  );
}

/** A time that counts once it is typed. */
function TypedTime({ name, value, onChange }: { name: string; value: string; onChange: (value: string) => void }) {
  const [text, setText] = useState<string>();
  const done = () => {
    if (text !== undefined && text !== localOf(value)) onChange(isoOf(text));
    setText(undefined);
  };
  return (
    <label className="row">
      <span className="small dim">{name}</span>
      <input
        className="input"
        type="datetime-local"
        value={text ?? localOf(value)}
        onChange={(event) => setText(event.target.value)}
        onBlur={done}
        onKeyDown={(event) => event.key === "Enter" && done()}
      />
    </label>
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
