import {
  autocompletion,
  type CompletionContext,
  type CompletionResult,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { python } from "@codemirror/lang-python";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, type Extension, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  WidgetType,
} from "@codemirror/view";
import { useEffect, useImperativeHandle, useRef } from "react";
import type { Finding } from "../api/projects";
import type { Completions } from "../lib/completing";
import type { TextFile } from "../lib/diff";
import { visible } from "../lib/text";
import { COLOURS, LOOK } from "./codeLook";

export interface EditorHandle {
  /** The text as it is now. */
  text: () => string | undefined;
  goTo: (line: number) => void;
}

const setFindings = StateEffect.define<Finding[]>();

class Message extends WidgetType {
  constructor(
    readonly text: string,
    readonly severity: string,
  ) {
    super();
  }
  override eq(other: Message): boolean {
    return other.text === this.text && other.severity === this.severity;
  }
  toDOM(): HTMLElement {
    const element = document.createElement("span");
    element.className = `cm-message ${this.severity}`;
    element.textContent = visible(this.text);
    element.setAttribute("aria-hidden", "true"); // the list of findings says it
    return element;
  }
}

const MOST_SHOWN = 200;

function marks(state: EditorState, findings: Finding[]): DecorationSet {
  const ranges = findings
    .filter((each) => each.line && each.line <= state.doc.lines)
    .slice(0, MOST_SHOWN)
    .flatMap((each) => {
      const line = state.doc.line(each.line as number);
      const widget = new Message(each.message, each.severity);
      return [
        Decoration.line({ class: each.severity === "error" ? "cm-finding" : "cm-warned" }).range(line.from),
        Decoration.widget({ widget, side: 1 }).range(line.to),
      ];
    });
  return Decoration.set(ranges, true);
}

const shown = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(before, transaction) {
    let now = before.map(transaction.changes);
    for (const effect of transaction.effects)
      if (effect.is(setFindings)) now = marks(transaction.state, effect.value);
    return now;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function languageOf(filename: string): Extension {
  if (filename.endsWith(".py")) return [python(), indentUnit.of("    ")];
  if (filename.endsWith(".json")) return json();
  return /\.ya?ml$/.test(filename) ? yaml() : [];
}

/** A file to change. Its text belongs to the editor: `file.content` is only what it begins with. */
export default function CodeEditor({
  file,
  findings,
  complete,
  readOnly,
  handle,
  onType,
}: {
  file: TextFile;
  findings: Finding[];
  /** What can stand at the end of a text. */
  complete: (before: string, source: string) => Completions | undefined;
  readOnly: boolean;
  handle: React.Ref<EditorHandle>;
  /** Called with each change; `text` of the handle has the new text. */
  onType: () => void;
}) {
  const holder = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const latest = useRef({ complete, onType });
  latest.current = { complete, onType };
  // biome-ignore lint/correctness/useExhaustiveDependencies: another content of a file that is open is its key's matter
  useEffect(() => {
    if (!holder.current) return;
    // In a shadow root CodeMirror's styles are constructed sheets: a <style> element would be against our policy.
    const root = holder.current.shadowRoot ?? holder.current.attachShadow({ mode: "open" });
    const source = (context: CompletionContext): CompletionResult | null => {
      const text = context.state.doc.toString();
      const found = latest.current.complete(text.slice(0, context.pos), text);
      if (!found) return null;
      return {
        from: found.from,
        validFor: /^\w*$/,
        options: found.options.map((each) => ({
          label: each.name,
          type: each.kind,
          detail: each.signature?.startsWith(" ") ? each.signature.trim() : undefined,
          info: [each.signature, each.doc].filter(Boolean).map(visible).join(" — ") || undefined,
        })),
      };
    };
    const made = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: file.content,
        extensions: [
          lineNumbers(),
          highlightSpecialChars(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          closeBrackets(),
          highlightActiveLine(),
          syntaxHighlighting(COLOURS),
          LOOK,
          shown,
          file.filename.endsWith(".py") ? autocompletion({ override: [source], icons: false }) : [],
          keymap.of([
            ...closeBracketsKeymap,
            ...defaultKeymap,
            ...historyKeymap,
            ...completionKeymap,
            indentWithTab,
          ]),
          EditorState.readOnly.of(readOnly),
          EditorView.contentAttributes.of({
            "aria-label": `The file ${visible(file.filename)}`,
            tabindex: "0",
            spellcheck: "false",
            autocapitalize: "off",
          }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onType();
          }),
          languageOf(file.filename),
        ],
      }),
    });
    view.current = made;
    return () => {
      view.current = undefined;
      made.destroy();
    };
  }, [file.filename, readOnly]);
  useEffect(() => {
    view.current?.dispatch({ effects: setFindings.of(findings) });
  }, [findings]);
  useImperativeHandle(handle, () => ({
    text: () => view.current?.state.doc.toString(),
    goTo: (line) => {
      const editor = view.current;
      if (!editor) return;
      const at = editor.state.doc.line(Math.min(Math.max(line, 1), editor.state.doc.lines)).from;
      editor.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      editor.focus();
    },
  }));
  return <div className="code editor" ref={holder} />;
}
