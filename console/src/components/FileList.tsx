import { useState } from "react";
import type { Finding } from "../api/projects";
import type { TextFile } from "../lib/diff";
import { nameProblem, sorted } from "../lib/editing";
import { visible } from "../lib/text";
import { ActionDialog } from "./ActionDialog";

/** The files of a project: which one is edited, and new and unwanted ones. */
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
  const [doing, setDoing] = useState<"add" | "delete">();
  const saved = new Map(base.map((each) => [each.filename, each.content]));
  const broken = new Set(findings.filter((each) => each.severity === "error").map((each) => each.filename));
  return (
    <div className="file-list">
      <nav aria-label="Files">
        {files.map((each) => (
          <button
            key={each.filename}
            type="button"
            className={broken.has(each.filename) ? "cut broken" : "cut"}
            title={visible(each.filename)}
            aria-current={each.filename === chosen}
            onClick={() => onChoose(each.filename)}
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
            <button type="button" className="button small quiet" onClick={() => setDoing("delete")}>
              Delete…
            </button>
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
      <label className="field">
        <span>Path</span>
        <input
          className="input mono"
          autoComplete="off"
          spellCheck={false}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </label>
      <p className="small dim" role="status">
        {name && problem}
      </p>
    </ActionDialog>
  );
}
