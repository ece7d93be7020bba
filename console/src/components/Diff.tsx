import { useMemo } from "react";
import type { Schemas } from "../api/client";
import { diffFiles, excerpt, patchLines, type TextFile } from "../lib/diff";
import { visible } from "../lib/text";

const SIGNS = { same: " ", added: "+", removed: "-" };

/** What changes from some files to others. */
export function Diff({ before, after }: { before: TextFile[]; after: TextFile[] }) {
  const files = useMemo(() => diffFiles(before, after), [before, after]);
  if (files.length === 0) return <p className="note good">The files are the same.</p>;
  return (
    <div className="stack">
      {files.map((file) => (
        <section key={file.filename} aria-label={`Changes of ${file.filename}`} className="stack-s">
          <div className="row">
            <code>{file.filename}</code>
            <span className="dimmer small">{file.change}</span>
          </div>
          <section className="diff" tabIndex={0} aria-label={file.filename}>
            {excerpt(file.lines).map((line, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity
              <div key={at} className={line?.kind ?? "hunk"}>
                {line ? `${SIGNS[line.kind]} ${visible(line.text)}` : "…"}
              </div>
            ))}
          </section>
        </section>
      ))}
    </div>
  );
}

/** What changed in one file, by a unified diff of the API. */
export function UnifiedDiff({ file }: { file: Schemas["FileDiff"] }) {
  return (
    <section aria-label={`Changes of ${visible(file.filename)}`} className="stack-s">
      <div className="row">
        <code>{visible(file.filename)}</code>
        <span className="dimmer small">{file.change}</span>
      </div>
      {file.diff && (
        <section className="diff" tabIndex={0} aria-label={visible(file.filename)}>
          {patchLines(file.diff).map((line, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity
            <div key={at} className={line?.kind ?? "hunk"}>
              {line ? `${SIGNS[line.kind]} ${visible(line.text)}` : "…"}
            </div>
          ))}
        </section>
      )}
      {file.binary && <p className="dim">Binary file.</p>}
      {file.truncated && <p className="dim">The diff is truncated.</p>}
    </section>
  );
}
