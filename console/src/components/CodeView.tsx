import { json } from "@codemirror/lang-json";
import { python } from "@codemirror/lang-python";
import { syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { Decoration, EditorView, highlightSpecialChars, lineNumbers } from "@codemirror/view";
import { useEffect, useRef, useState } from "react";
import type { Finding } from "../api/projects";
import type { TextFile } from "../lib/diff";
import { visible } from "../lib/text";
import { Badge } from "./basics";
import { COLOURS, LOOK } from "./codeLook";

/** Files to read, not to change. */
export default function CodeView({ files, findings }: { files: TextFile[]; findings: Finding[] }) {
  const [chosen, setChosen] = useState("main.py");
  const file = files.find((each) => each.filename === chosen) ?? files[0];
  return (
    <>
      {findings.length > 0 && <Findings findings={findings} onChoose={setChosen} />}
      <div className="files">
        <nav aria-label="Files">
          {files.map((each) => (
            <button
              key={each.filename}
              type="button"
              className="cut"
              title={each.filename}
              aria-current={each === file}
              onClick={() => setChosen(each.filename)}
            >
              {visible(each.filename)}
            </button>
          ))}
        </nav>
        {file && <Code key={file.filename} file={file} findings={findings} />}
      </div>
    </>
  );
}

const TONES = { error: "bad", warning: "warn", info: "info" } as const;

function Findings({ findings, onChoose }: { findings: Finding[]; onChoose: (file: string) => void }) {
  return (
    <ul aria-label="Findings">
      {findings.map((each) => (
        <li key={`${each.filename}:${each.line}:${each.message}`} className="problem">
          <Badge tone={TONES[each.severity]}>{each.severity}</Badge>
          {each.filename && (
            <button type="button" className="button small quiet mono" onClick={() => onChoose(each.filename ?? "")}>
              {visible(each.filename)}
              {each.line ? `:${each.line}` : ""}
            </button>
          )}
          <span className="grow">{visible(each.message)}</span>
        </li>
      ))}
    </ul>
  );
}

/** Colours the lines that have findings. */
function marked(text: string, file: string, findings: Finding[]) {
  const lines = findings.filter((each) => each.filename === file && each.line).map((each) => each.line as number);
  const doc = EditorState.create({ doc: text }).doc;
  const marks = [...new Set(lines)]
    .filter((line) => line <= doc.lines)
    .sort((one, other) => one - other)
    .map((line) => Decoration.line({ class: "cm-finding" }).range(doc.line(line).from));
  return EditorView.decorations.of(Decoration.set(marks));
}

function Code({ file, findings }: { file: TextFile; findings: Finding[] }) {
  const holder = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!holder.current) return;
    // In a shadow root CodeMirror's styles are constructed sheets: a <style> element would be against our policy.
    const root = holder.current.shadowRoot ?? holder.current.attachShadow({ mode: "open" });
    const language = file.filename.endsWith(".py") ? [python()] : file.filename.endsWith(".json") ? [json()] : [];
    const view = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: file.content,
        extensions: [
          lineNumbers(),
          highlightSpecialChars(),
          syntaxHighlighting(COLOURS),
          LOOK,
          EditorState.readOnly.of(true),
          EditorView.contentAttributes.of({ "aria-label": `The file ${file.filename}`, tabindex: "0" }),
          marked(file.content, file.filename, findings),
          ...language,
        ],
      }),
    });
    return () => view.destroy();
  }, [file, findings]);
  return <div className="code" ref={holder} />;
}
