import { useRef, useState } from "react";
import type { Finding } from "../api/projects";
import type { TextFile } from "../lib/diff";
import { hasRelativeImports, importersOf, nameProblem, renamed, renameProblem, sorted } from "../lib/editing";
import { visible } from "../lib/text";
import { ActionDialog } from "./ActionDialog";
import { useToast } from "./Toasts";

/** The files of a project: which one is edited, and new, renamed and unwanted ones. */
export function FileList({
  files,
  base,
  chosen,
  findings,
  readOnly,
  latest,
  onChoose,
  onChange,
}: {
  files: TextFile[];
  base: TextFile[];
  chosen: string | undefined;
  findings: Finding[];
  readOnly: boolean;
  /** The files with all that was typed. */
  latest: () => TextFile[];
  onChoose: (filename: string) => void;
  /** Called with other files, and the one to edit then. */
  onChange: (files: TextFile[], chosen: string) => void;
}) {
  const [doing, setDoing] = useState<"add" | "rename" | "delete">();
  const list = useRef<HTMLElement>(null);
  const say = useToast();
  const saved = new Map(base.map((each) => [each.filename, each.content]));
  const broken = new Set(findings.filter((each) => each.severity === "error").map((each) => each.filename));
  const rename = () => {
    latest(); // imports that were just typed count
    setDoing("rename");
  };
  return (
    <div className="file-list">
      <nav aria-label="Files" ref={list}>
        {files.map((each) => (
          <button
            key={each.filename}
            type="button"
            className={broken.has(each.filename) ? "cut broken" : "cut"}
            title={visible(each.filename)}
            aria-current={each.filename === chosen}
            onClick={() => onChoose(each.filename)}
            onKeyDown={({ key }) => {
              if (key !== "F2" || readOnly) return;
              onChoose(each.filename);
              rename();
            }}
          >
            {visible(each.filename)}
            {saved.get(each.filename) !== each.content && (
              <span className="dimmer" title="Not saved yet">
                {" "}
                •
              </span>
            )}
          </button>
        ))}
      </nav>
      {!readOnly && (
        <div className="row wrap">
          <button type="button" className="button small quiet" onClick={() => setDoing("add")}>
            New file…
          </button>
          {chosen && (
            <>
              <button type="button" className="button small quiet" onClick={rename}>
                Rename…
              </button>
              <button type="button" className="button small quiet" onClick={() => setDoing("delete")}>
                Delete…
              </button>
            </>
          )}
        </div>
      )}
      {doing === "add" && (
        <AddDialog
          files={files}
          onAdd={(filename) => {
            setDoing(undefined);
            onChange(sorted([...latest(), { filename, content: "" }]), filename);
          }}
          onClose={() => setDoing(undefined)}
        />
      )}
      {doing === "rename" && chosen && (
        <RenameDialog
          files={files}
          filename={chosen}
          onRename={(path) => {
            setDoing(undefined);
            onChange(renamed(latest(), chosen, path), path);
            say(`${visible(chosen)} is now ${visible(path)}.`);
            // Its button in the list is another one after the next render.
            setTimeout(() => list.current?.querySelector<HTMLElement>("[aria-current=true]")?.focus(), 0);
          }}
          onClose={() => setDoing(undefined)}
        />
      )}
      {doing === "delete" && chosen && (
        <ActionDialog
          title={`Delete ${visible(chosen)}`}
          verb="Delete"
          danger
          action={{ isPending: false }}
          onSubmit={() => {
            setDoing(undefined);
            onChange(
              latest().filter((each) => each.filename !== chosen),
              "main.py",
            );
          }}
          onClose={() => setDoing(undefined)}
        >
          <p>The file is gone with the next deploy. Versions that were deployed keep it.</p>
        </ActionDialog>
      )}
    </div>
  );
}

function AddDialog({
  files,
  onAdd,
  onClose,
}: {
  files: TextFile[];
  onAdd: (filename: string) => void;
  onClose: () => void;
}) {
  const [name, setName] = useState(files.length === 0 ? "main.py" : "");
  const problem = nameProblem(name.trim(), files);
  return (
    <ActionDialog
      title="New file"
      verb="Add"
      action={{ isPending: false }}
      disabled={Boolean(problem)}
      onSubmit={() => onAdd(name.trim())}
      onClose={onClose}
    >
      <PathField value={name} problem={name && problem} onChange={setName} />
    </ActionDialog>
  );
}

function PathField({
  value,
  problem,
  onChange,
}: {
  value: string;
  problem: string | undefined;
  onChange: (value: string) => void;
}) {
  return (
    <>
      <label className="field">
        <span>Path</span>
        <input
          className="input mono"
          autoComplete="off"
          spellCheck={false}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      </label>
      <p className="small dim" role="status">
        {problem}
      </p>
    </>
  );
}

const MOST_NAMED = 5;

/** Gives a file another name or folder. */
function RenameDialog({
  files,
  filename,
  onRename,
  onClose,
}: {
  files: TextFile[];
  filename: string;
  onRename: (path: string) => void;
  onClose: () => void;
}) {
  const [path, setPath] = useState(filename);
  const wanted = path.trim();
  const problem = renameProblem(wanted, filename, files);
  const importers = importersOf(filename, files);
  const moved = folderOf(wanted) !== folderOf(filename);
  const relative = moved && hasRelativeImports(files.find((each) => each.filename === filename));
  return (
    <ActionDialog
      title={`Rename ${visible(filename)}`}
      verb="Rename"
      action={{ isPending: false }}
      disabled={Boolean(problem)}
      onSubmit={() => onRename(wanted)}
      onClose={onClose}
    >
      <PathField value={path} problem={problem} onChange={setPath} />
      {filename === "main.py" && <p className="note warn">A deploy needs main.py: it is the file that runs.</p>}
      {importers.length > 0 && (
        <p className="note warn">
          {importers.slice(0, MOST_NAMED).map(visible).join(", ")}
          {importers.length > MOST_NAMED && ` and ${importers.length - MOST_NAMED} more`}{" "}
          {importers.length === 1 ? "imports" : "import"} this module. Change the imports after the rename.
        </p>
      )}
      {relative && <p className="note warn">The file has relative imports, which mean other modules there.</p>}
    </ActionDialog>
  );
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/") + 1);
}
