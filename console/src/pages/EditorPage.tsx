import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { Link } from "wouter";
import { ApiError } from "../api/client";
import { FilesChanged, type ProjectTemplate, useEditing, useProjectTemplates } from "../api/editor";
import { type Environment, type Finding, type Project, useProject } from "../api/projects";
import { useTemplates } from "../api/templates";
import { useOrganisation } from "../app/organisation";
import { Card, Empty, Failure, Loading, PageHead } from "../components/basics";
import type { EditorHandle } from "../components/CodeEditor";
import { ConflictCard } from "../components/ConflictCard";
import { FileList } from "../components/FileList";
import { FindingList } from "../components/FindingList";
import { NeededConnections } from "../components/NeededConnections";
import { page } from "../components/page";
import { RunBeside } from "../components/RunBeside";
import { EnvironmentBadge } from "../components/status";
import { useToast } from "../components/Toasts";
import { type Example, WebhookForm } from "../components/WebhookForm";
import { Checker, type CheckState } from "../lib/checking";
import { completionsAt, operationsOf, type Sdk } from "../lib/completing";
import type { TextFile } from "../lib/diff";
import { type Draft, draftKey, readDraft, writeDraft } from "../lib/drafts";
import {
  type Conflict,
  decided,
  findingsOf,
  merge,
  namedConnections,
  placeOf,
  sameFiles,
  sorted,
  webhooksOf,
} from "../lib/editing";
import { useFilters } from "../lib/filters";
import { path, safeUrl } from "../lib/links";
import sdk from "../lib/sdk.json";
import { visible } from "../lib/text";

const CodeEditor = page(() => import("../components/CodeEditor"), "editor");

/** The files of a project, to change, deploy and try. */
export default function EditorPage({ project, user }: { project: string; user: string }) {
  const found = useProject(project);
  const templates = useProjectTemplates();
  const [{ template }] = useFilters(["template"] as const);
  if (found.isPending || templates.isPending) return <Loading what="the project" />;
  if (!found.data) return <Failure error={found.error} />;
  const begun = templates.data?.items.find((each) => each.key === template);
  return <Editor project={found.data} user={user} template={begun} />;
}

/** A repository, with a link where browsers can open it. */
function Repository({ url }: { url: string }) {
  const href = url.startsWith("https://") ? safeUrl(url) : undefined;
  if (!href) return <code>{visible(url)}</code>;
  return (
    <a className="link" href={href} target="_blank" rel="noreferrer">
      {visible(url)}
    </a>
  );
}

const TYPING_MS = 250;
const NONE: Finding[] = [];

function Editor({ project, user, template }: { project: Project; user: string; template?: ProjectTemplate }) {
  const { namespace, canEdit } = useOrganisation();
  const manager = project.filesManagedBy;
  const readOnly = !canEdit || Boolean(manager);
  const editor = useRef<EditorHandle>(null);
  const text = useText(project, user, readOnly);
  const { files, current } = text;
  const [filters, change] = useFilters(["environment"] as const);
  const environment =
    project.environments.find((each) => each.name === filters.environment) ?? project.environments[0];
  const [chosen, setChosen] = useState("main.py");
  const file = files.find((each) => each.filename === chosen) ?? files[0];
  const [message, setMessage] = [text.message, text.setMessage];
  const editing = useEditing(project.id);
  const [deploying, setDeploying] = useState(false);
  const [error, setError] = useState<unknown>();
  const [refused, setRefused] = useState<Finding[]>(NONE);
  const [run, setRun] = useState<{ run: string; environment: string }>();
  const say = useToast();
  const check = useCheck(editing.check, files, environment?.id, readOnly);
  const linked = useTemplates(project.id, environment?.id);

  // The text that is typed is the editor's. It goes into the files a moment after the last key, and before all that
  // needs them.
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const filename = file?.filename;
  const flush = useCallback((): TextFile[] => {
    clearTimeout(timer.current);
    text.typing.current = false;
    const typed = editor.current?.text();
    const before = current();
    if (typed === undefined || filename === undefined) return before;
    if (before.find((each) => each.filename === filename)?.content === typed) return before;
    const now = before.map((each) => (each.filename === filename ? { filename, content: typed } : each));
    text.set(now);
    return now;
  }, [filename, current, text.set, text.typing]);
  const onType = () => {
    clearTimeout(timer.current);
    text.typing.current = true;
    timer.current = setTimeout(flush, TYPING_MS);
  };
  const { keep } = text;
  const atTheEnd = useRef(() => {});
  atTheEnd.current = () => {
    flush();
    keep();
  };
  // Before the editor itself is gone, whatever takes the page away: another page, a reload, a session that ends.
  useLayoutEffect(() => {
    const onHide = () => atTheEnd.current();
    window.addEventListener("pagehide", onHide);
    return () => {
      window.removeEventListener("pagehide", onHide);
      onHide();
    };
  }, []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: what a deploy refused is about the files that it had
  useEffect(() => setRefused(NONE), [files]);

  const open = (wanted: string, line?: number | null) => {
    flush();
    setChosen(wanted);
    // The editor of another file is there after the next render.
    setTimeout(() => line && editor.current?.goTo(line), 0);
  };
  const deploy = async () => {
    if (!environment || deploying) return;
    const sent = flush();
    text.sending(sent);
    setDeploying(true);
    setError(undefined);
    try {
      await editing.deploy({ base: text.base, files: sent, message, environment: environment.id });
      text.saved(sent);
      say(`Deployed to ${environment.name}: accepted. The page shows how it goes.`);
    } catch (reason) {
      if (reason instanceof FilesChanged) {
        flush();
        text.meet(reason.theirs);
      } else {
        setError(reason);
        if (reason instanceof ApiError && reason.status === 422) setRefused(findingsOf(reason.fields));
      }
    } finally {
      setDeploying(false);
    }
  };

  const crash = crashOf(environment, text.isDirty ? NONE_OF_FILES : files);
  const findings = useMemo(
    () => [...(refused.length > 0 ? refused : check.findings), ...(crash ? [crash] : [])],
    [refused, check.findings, crash],
  );
  const known = useMemo(() => {
    const connectors = operationsOf(files);
    const names = [...(linked.data ?? []).map((each) => each.name), ...Object.keys(connectors)];
    return { connectors, connections: [...new Set(names)] };
  }, [files, linked.data]);
  const wanted = useMemo(() => namedConnections(files), [files]);
  const example = useMemo(() => exampleOf(template, files), [template, files]);

  return (
    <>
      <PageHead
        title={`Edit ${project.name}`}
        crumbs={
          <>
            <Link href={path(namespace, "projects")}>Projects</Link>
            <Link href={path(namespace, "projects", project.id)}>{visible(project.name)}</Link>
          </>
        }
        sub={environment && <EnvironmentState environment={environment} />}
      />
      {manager && (
        <div className="note warn" role="note" aria-label="Read-only">
          <strong>Read-only.</strong> {visible(manager.manager)} manages the files:{" "}
          <code>{visible(manager.path)}</code>
          {manager.repository && (
            <>
              {" "}
              in <Repository url={manager.repository} />
            </>
          )}
          {manager.revision && (
            <>
              {" "}
              at <code>{visible(manager.revision)}</code>
            </>
          )}
          . To change them, {manager.advice}.
        </div>
      )}
      {!manager && !canEdit && <p className="note">Read-only: an editor of {namespace} changes files.</p>}
      {text.merged && (
        <p className="note warn" role="status">
          The files were changed on the platform meanwhile. {text.merged}
        </p>
      )}
      {text.conflicts.length > 0 && (
        <ConflictCard
          conflicts={text.conflicts}
          onDecide={(each, mine) => {
            flush();
            text.decide(each, mine);
          }}
        />
      )}
      {environment && !readOnly && (
        <NeededConnections
          project={project.id}
          environment={environment.id}
          template={template}
          named={wanted}
          onLeave={flush}
          onChange={() => check.again()}
        />
      )}
      <div className="workbench">
        <section className="card" aria-label="Files and text">
          <div className="files">
            <FileList
              files={files}
              base={text.base}
              chosen={filename}
              findings={findings}
              readOnly={readOnly}
              onChoose={open}
              onChange={(now, next) => {
                text.set(now);
                setChosen(next);
              }}
              latest={flush}
            />
            {file ? (
              <CodeEditor
                key={`${text.edition}:${file.filename}`}
                file={file}
                findings={findings.filter((each) => each.filename === file.filename)}
                complete={(before, source) => completionsAt(before, source, sdk as Sdk, known)}
                readOnly={readOnly}
                handle={editor}
                onType={onType}
              />
            ) : (
              <Empty title="No file yet">Add main.py: it is the file that runs.</Empty>
            )}
          </div>
          <FindingList state={check.state} findings={findings} onChoose={open} />
        </section>
        <div className="stack">
          {!readOnly && environment && (
            <Card title="Save and deploy">
              <form
                className="stack-s"
                onSubmit={(event) => {
                  event.preventDefault();
                  void deploy();
                }}
              >
                {project.environments.length > 1 && (
                  <select
                    className="input"
                    aria-label="Environment"
                    value={environment.name}
                    onChange={(event) => change({ environment: event.target.value })}
                  >
                    {project.environments.map((each) => (
                      <option key={each.id}>{each.name}</option>
                    ))}
                  </select>
                )}
                <input
                  className="input"
                  aria-label="What changed"
                  placeholder="What changed"
                  maxLength={2000}
                  value={message}
                  onChange={(event) => setMessage(event.target.value)}
                />
                <div className="row wrap">
                  <button
                    type="submit"
                    className="button primary"
                    disabled={deploying || text.conflicts.length > 0 || files.length === 0}
                  >
                    {deploying ? "Deploying…" : "Save and deploy"}
                  </button>
                  {text.isDirty && (
                    <button type="button" className="button quiet" onClick={text.discard}>
                      Discard changes
                    </button>
                  )}
                </div>
                <p className="small dim" role="status">
                  {text.isDirty
                    ? text.isKept
                      ? "Not saved yet. This tab keeps the text."
                      : "Not saved yet, and too much for this tab to keep: a reload loses it."
                    : environment.deployedVersion
                      ? "Saved."
                      : "Saved, and not deployed yet."}
                </p>
              </form>
              <Failure error={error} />
            </Card>
          )}
          <WebhookForm
            key={example ? `${example.method}${example.urlPath}` : ""}
            project={project}
            example={example}
            onRun={(made, of) => setRun({ run: made, environment: of })}
          />
          {run && <RunBeside key={run.run} project={project.id} {...run} />}
        </div>
      </div>
    </>
  );
}

const NONE_OF_FILES: TextFile[] = [];

/** What the last deploy to an environment failed with, at its line. */
function crashOf(environment: Environment | undefined, files: TextFile[]): Finding | undefined {
  const rollout = environment?.rollout;
  if (rollout?.state !== "failed" || !rollout.message) return undefined;
  const place = placeOf(rollout.message, files);
  return place && ({ ...place, severity: "error", message: rollout.message } as Finding);
}

function exampleOf(template: ProjectTemplate | undefined, files: TextFile[]): Example | undefined {
  const request = template?.request;
  if (request) {
    const body = request.body === undefined ? "" : JSON.stringify(request.body, null, 2);
    return { method: request.method as Example["method"], urlPath: request.path, body };
  }
  const [first] = webhooksOf(files);
  return first && { method: first.method as Example["method"], urlPath: first.path, body: "{}" };
}

function EnvironmentState({ environment }: { environment: Environment }) {
  const { rollout } = environment;
  return (
    <>
      <span>
        {environment.name} <EnvironmentBadge environment={environment} />
      </span>
      {rollout && rollout.state !== "complete" && (
        <span role="status">
          {rollout.state === "failed"
            ? `the deploy failed: ${visible(rollout.message ?? rollout.reason)}`
            : "being rolled out"}
        </span>
      )}
    </>
  );
}

/** Findings about the files, a moment after they change. */
function useCheck(
  ask: (files: TextFile[], environment: string, signal: AbortSignal) => Promise<Finding[]>,
  files: TextFile[],
  environment: string | undefined,
  off: boolean,
) {
  const [state, setState] = useState<CheckState>({ type: "waiting", findings: NONE });
  const checker = useRef<Checker>(undefined);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (!environment || off) return;
    checker.current = new Checker((given, signal) => ask(given, environment, signal), setState);
    return () => {
      checker.current?.stop();
      checker.current = undefined;
    };
  }, [ask, environment, off]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another turn is another check
  useEffect(() => {
    if (files.length > 0) checker.current?.soon(files);
  }, [files, environment, off, turn]);
  const again = useCallback(() => setTurn((before) => before + 1), []);
  return { state: off ? undefined : state, findings: off ? NONE : state.findings, again };
}

/** The files as they are edited: kept in this tab, and merged with what others save. */
function useText(project: Project, user: string, readOnly: boolean) {
  const place = draftKey(user, project.id);
  const [draft] = useState(() => (readOnly ? undefined : readDraft(sessionStorage, place)));
  const served = project.currentFiles.files;
  const [base, setBase] = useState(draft?.base ?? served);
  const [files, setFiles] = useState(() => sorted(draft?.files ?? served));
  const [message, setMessage] = useState(draft?.message ?? "");
  const [met, setMet] = useState<{ theirs: TextFile[]; left: Conflict[] }>();
  const [merged, setMerged] = useState("");
  const [edition, setEdition] = useState(0);
  const [isKept, setKept] = useState(true);
  const past = useRef<TextFile[][]>([]);
  const typing = useRef(false);
  const now = useRef<Draft>({ base, files, message });
  now.current = { base, files, message };
  const isDirty = !sameFiles(files, base);

  const replace = useCallback((next: TextFile[]) => {
    now.current = { ...now.current, files: next };
    setFiles(next);
    setEdition((before) => before + 1);
  }, []);
  const set = useCallback((next: TextFile[]) => {
    now.current = { ...now.current, files: next };
    setFiles(next);
  }, []);
  const meet = useCallback(
    (theirs: TextFile[]) => {
      const { files: next, conflicts } = merge(now.current.base, now.current.files, theirs);
      replace(next);
      if (conflicts.length > 0) {
        setMet({ theirs, left: conflicts });
        setMerged("Decide what becomes of the files that both of you changed.");
      } else {
        past.current.push(now.current.base);
        setBase(theirs);
        setMerged("Their changes are merged with yours: look at them, and deploy again.");
      }
    },
    [replace],
  );

  // Files that another person saved are taken over; files that were edited here, too, are merged.
  // biome-ignore lint/correctness/useExhaustiveDependencies: what waits for the text that is typed is done after it
  useEffect(() => {
    if (met || typing.current || sameFiles(served, base) || past.current.some((each) => sameFiles(each, served)))
      return;
    if (readOnly || sameFiles(now.current.files, base) || sameFiles(now.current.files, served)) {
      past.current.push(base);
      setBase(served);
      if (!sameFiles(now.current.files, served)) replace(sorted(served));
    } else meet(served);
  }, [served, base, files, met, readOnly, replace, meet]);

  const keep = useCallback(() => {
    if (readOnly) return;
    const of = now.current;
    const worth = !sameFiles(of.files, of.base) || of.message !== "";
    setKept(writeDraft(sessionStorage, place, worth ? of : undefined));
  }, [place, readOnly]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each change of the text is kept
  useEffect(keep, [files, base, message, keep]);

  return {
    base,
    files,
    message,
    setMessage,
    merged,
    edition,
    isDirty,
    isKept,
    conflicts: met?.left ?? [],
    /** Whether the editor has text that the files do not have yet. */
    typing,
    current: useCallback(() => now.current.files, []),
    set,
    keep,
    meet,
    decide: (conflict: Conflict, keepMine: boolean) => {
      if (!met) return;
      // The own text is in the files already, with what was typed since.
      if (!keepMine) replace(decided(now.current.files, conflict, false));
      const left = met.left.filter((each) => each !== conflict);
      if (left.length > 0) setMet({ ...met, left });
      else {
        past.current.push(now.current.base);
        setBase(met.theirs);
        setMet(undefined);
        setMerged("");
      }
    },
    /** Notes what is sent: when it comes back, it is nobody else's change. */
    sending: (sent: TextFile[]) => void past.current.push(sent),
    saved: (sent: TextFile[]) => {
      past.current.push(now.current.base);
      setBase(sent);
      setMessage("");
      setMerged("");
    },
    discard: () => {
      setMet(undefined);
      setMerged("");
      setBase(served);
      replace(sorted(served));
    },
  };
}
