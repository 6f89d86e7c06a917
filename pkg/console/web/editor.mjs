// The editor that pages load when a payload is edited: CodeMirror with line numbers, history, JSON colours and marks
// at errors. vendor.mjs bundles it. It lives in a shadow root: there browsers accept its stylesheets under the
// console's content security policy.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: [tags.number, tags.bool], color: "var(--new)" },
  { tag: tags.null, color: "var(--ink-3)", fontStyle: "italic" },
]);

const theme = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--panel)", border: "1px solid var(--line-2)", borderRadius: "var(--radius)", fontSize: "var(--small)", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--ink-3)", border: "0" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--accent-wash)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--match)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--match)" },
  ".cm-wrong": { textDecoration: "underline wavy var(--alarm)", backgroundColor: "var(--alarm-wash)" },
});

// The mark at an error. CodeMirror's own marks are pictures, which the content security policy does not allow.
const setMark = StateEffect.define();
const mark = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    for (const effect of transaction.effects) if (effect.is(setMark)) return effect.value;
    return marks.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

// create shows text in the host, and returns what the page does with the editor. changed is called after each change.
export function create({ host, text, label, readOnly, changed }) {
  const root = host.attachShadow({ mode: "open" });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), mark, highlightActiveLine(), highlightActiveLineGutter(), drawSelection(), history(), bracketMatching(), indentOnInput(),
        indentUnit.of("  "), json(), syntaxHighlighting(colours), theme, EditorView.lineWrapping,
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorState.readOnly.of(readOnly),
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
        EditorView.updateListener.of((update) => { if (update.docChanged) changed(); }),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    focus: () => view.focus(),
    replace(next) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } });
    },
    // select scrolls to a part of the text and selects it.
    select(from, to) {
      const most = view.state.doc.length;
      const range = { anchor: Math.min(from, most), head: Math.min(to, most) };
      view.dispatch({ selection: range, effects: EditorView.scrollIntoView(range.anchor, { y: "center" }) });
      view.focus();
    },
    // mark marks a problem, null for none.
    mark(problem) {
      const to = Math.min(problem?.to ?? 0, view.state.doc.length);
      const wrong = problem && problem.from < to ? Decoration.set([Decoration.mark({ class: "cm-wrong" }).range(problem.from, to)]) : Decoration.none;
      view.dispatch({ effects: setMark.of(wrong) });
    },
  };
}
