import { type ReactNode, useEffect, useState } from "react";
import { ApiError } from "../api/client";
import { shortName, visible } from "../lib/text";
import { absolute, relative, useNow } from "../lib/time";

export type Tone = "good" | "bad" | "warn" | "info" | "idle";

export function Badge({ tone, children }: { tone: Tone; children: ReactNode }) {
  return <span className={`badge ${tone}`}>{children}</span>;
}

/** A time as a distance from now; the whole time in the reader's zone when pointed at. */
export function Time({ value, never = "never" }: { value: string | null | undefined; never?: string }) {
  const now = useNow();
  if (!value) return <span className="dimmer">{never}</span>;
  return (
    <time dateTime={value} title={absolute(value)}>
      {relative(value, now)}
    </time>
  );
}

/** Somebody, by the end of their name in RBAC; the whole name when pointed at. */
export function Person({ name }: { name: string }) {
  return <span title={visible(name)}>{visible(shortName(name))}</span>;
}

/** A failure in words, with the fields that it names. */
export function Failure({ error }: { error: unknown }) {
  if (!error) return null;
  const fields = error instanceof ApiError ? error.fields : [];
  return (
    <div className="note bad" role="alert">
      {error instanceof Error ? visible(error.message) : "Something went wrong."}
      {fields.length > 0 && (
        <ul>
          {fields.map((each) => (
            <li key={`${each.field}${each.message}`}>
              <code>{each.field}</code>: {visible(each.message)}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** A command to run next, with a button that copies it. */
export function Command({ children }: { children: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () =>
    navigator.clipboard?.writeText(children).then(
      () => setCopied(true),
      () => setCopied(false),
    );
  return (
    <span className="command">
      <span>{children}</span>
      <button type="button" className="button small quiet" onClick={copy} aria-label={`Copy: ${children}`}>
        {copied ? "Copied" : "Copy"}
      </button>
    </span>
  );
}

/** What there is to do where there is nothing to see. */
export function Empty({
  title,
  children,
  commands = [],
  action,
  whole,
}: {
  title: string;
  /** Whether it is the whole page, whose heading the title is then. */
  whole?: boolean;
  children?: ReactNode;
  commands?: string[];
  /** What to do next here. */
  action?: ReactNode;
}) {
  return (
    <div className="empty">
      {whole ? <h1>{title}</h1> : <h2>{title}</h2>}
      {children && <p>{children}</p>}
      {action}
      {commands.map((each) => (
        <Command key={each}>{each}</Command>
      ))}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <div className="card-body stack-s" role="status" aria-label={`Loading ${what}`}>
      <div className="skeleton pulse" />
      <div className="skeleton pulse" />
      <div className="skeleton pulse" />
    </div>
  );
}

export function Card({
  title,
  aside,
  children,
  flush,
}: {
  title: string;
  aside?: ReactNode;
  children: ReactNode;
  flush?: boolean;
}) {
  return (
    <section className="card" aria-label={title}>
      <div className="card-head">
        <h2>{title}</h2>
        {aside && <div className="row right">{aside}</div>}
      </div>
      {flush ? children : <div className="card-body">{children}</div>}
    </section>
  );
}

export function PageHead({
  title,
  sub,
  crumbs,
  mark,
  children,
}: {
  title: ReactNode;
  /** Beside the title. */
  mark?: ReactNode;
  sub?: ReactNode;
  crumbs?: ReactNode;
  children?: ReactNode;
}) {
  useEffect(() => {
    if (typeof title === "string" && title) document.title = `${visible(title)} · Tieline`;
  }, [title]);
  return (
    <header className="page-head">
      {mark}
      <div className="grow">
        {crumbs && (
          <nav className="crumbs" aria-label="Where you are">
            {crumbs}
          </nav>
        )}
        <h1>{title}</h1>
        {sub && <div className="sub row wrap">{sub}</div>}
      </div>
      {children && <div className="actions">{children}</div>}
    </header>
  );
}

/** What others wrote, as it is; the keyboard scrolls it where it is long. */
export function Pre({ children, tone = "" }: { children: string; tone?: "error" | "" }) {
  return (
    <pre className={`pre ${tone}`} tabIndex={0}>
      {visible(children)}
    </pre>
  );
}

/** JSON as it is, indented; text, never markup. */
export function Json({ value }: { value: unknown }) {
  return <Pre>{typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "")}</Pre>;
}

/** Names and values; a value of nothing is left out. */
export function Facts({ of }: { of: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {of
        .filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false)
        .map(([name, value]) => (
          <FactRow key={name} name={name} value={value} />
        ))}
    </dl>
  );
}

function FactRow({ name, value }: { name: string; value: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
