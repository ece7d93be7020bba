import { HighlightStyle } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.comment], color: "var(--text-3)", fontStyle: "italic" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--warn)" },
  {
    tag: [tags.definition(tags.variableName), tags.function(tags.variableName), tags.propertyName],
    color: "var(--info)",
  },
  { tag: [tags.meta], color: "var(--warn)" },
]);
export const LOOK = EditorView.theme({
  "&": { fontSize: "12px", backgroundColor: "transparent", color: "var(--text)", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-2px" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--text-3)", border: "none" },
  ".cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "var(--selected)",
  },
  ".cm-finding": { backgroundColor: "var(--bad-bg)" },
  ".cm-warned": { backgroundColor: "var(--warn-bg)" },
  ".cm-message": { marginLeft: "24px", fontStyle: "italic", color: "var(--warn)" },
  ".cm-message.error": { color: "var(--bad)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--border)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent-fill)",
    color: "var(--on-accent)",
  },
  ".cm-tooltip.cm-completionInfo": { maxWidth: "420px", padding: "6px 9px", whiteSpace: "normal" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
});
