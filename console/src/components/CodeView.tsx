import { json } from "@codemirror/lang-json";
import { python } from "@codemirror/lang-python";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef, useState } from "react";
import type { TextFile } from "../lib/diff";

const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--span-4)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.comment], color: "var(--text-3)", fontStyle: "italic" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--warn)" },
  {
    tag: [tags.definition(tags.variableName), tags.function(tags.variableName), tags.propertyName],
    color: "var(--info)",
  },
  { tag: [tags.meta], color: "var(--span-3)" },
]);
const LOOK = EditorView.theme({
  "&": { fontSize: "12px", backgroundColor: "transparent", color: "var(--text)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--text-3)", border: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
});

/** Files to read, not to change. */
export default function CodeView({ files }: { files: TextFile[] }) {
  const [chosen, setChosen] = useState("main.py");
  const file = files.find((each) => each.filename === chosen) ?? files[0];
  return (
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
            {each.filename}
          </button>
        ))}
      </nav>
      {file && <Code key={file.filename} file={file} />}
    </div>
  );
}

function Code({ file }: { file: TextFile }) {
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
          syntaxHighlighting(COLOURS),
          LOOK,
          EditorState.readOnly.of(true),
          EditorView.contentAttributes.of({ "aria-label": `The file ${file.filename}`, tabindex: "0" }),
          ...language,
        ],
      }),
    });
    return () => view.destroy();
  }, [file]);
  return <div className="code" ref={holder} />;
}
