// The editor of the payload. It takes the place of the textarea, which stays the field of the form and works alone when
// the editor cannot be loaded. The text is checked while it is typed, laid out by its tokens, and every problem and
// every member that the error names can be jumped to.
import { format, minify, named, place, scan } from "./jsontext.js";

const pause = 250; // ms without typing before the text is checked
const mostNamed = 3;

export async function start(root) {
  const field = root.getElementById("edit-payload");
  const tools = root.querySelector("[data-edit-tools]");
  if (!field || !tools) return;
  let make;
  try {
    ({ create: make } = await import("./codemirror.js"));
  } catch {
    tools.hidden = true; // without the library the textarea is the editor
    return;
  }
  const kind = root.querySelector('select[name="payload_as"]');
  const [layOut, pack] = [tools.querySelector("[data-format]"), tools.querySelector("[data-minify]")];
  const said = tools.querySelector("[data-said]");
  const jumps = root.querySelector("[data-jumps]");
  const error = root.querySelector("[data-error]")?.textContent ?? "";

  const host = root.createElement("div");
  host.className = "editor";
  host.style.height = `${field.offsetHeight}px`;
  let waiting = 0, own = false;
  const editor = make({ host, text: field.value, label: "Payload", readOnly: field.readOnly, changed: () => later() });

  // keep writes the text to the field of the form, and reports it as typed for scripts that keep drafts.
  const keep = () => {
    if (field.value === editor.text()) return;
    own = true;
    field.value = editor.text();
    field.dispatchEvent(new Event("input", { bubbles: true }));
    own = false;
  };
  const check = () => {
    clearTimeout(waiting);
    keep();
    const text = editor.text();
    const isText = kind?.value === "text" || kind?.value === "json";
    const { tokens, members, problem } = scan(text);
    layOut.disabled = pack.disabled = !isText || problem !== null || field.readOnly;
    said.replaceChildren();
    jumps.replaceChildren();
    editor.mark(isText ? problem : null);
    if (!isText) return { text, tokens };
    if (problem) {
      const { line, column } = place(text, problem.from);
      said.append("Not JSON: ", jump(`line ${line}, column ${column}`, problem), `${problem.path === "$" ? "" : ` at ${problem.path}`}: ${problem.message}.`);
    } else {
      said.textContent = "Valid JSON.";
      const found = named(members, error, mostNamed);
      if (found.length) jumps.append("The error names ", ...found.flatMap((m, i) => [i ? ", " : "", jump(m.path, m)]), ".");
    }
    return { text, tokens };
  };
  const later = () => {
    clearTimeout(waiting);
    waiting = setTimeout(check, pause);
  };
  function jump(words, { from, to }) {
    const button = root.createElement("button");
    button.type = "button";
    button.className = "quiet jump";
    button.textContent = words;
    button.addEventListener("click", () => editor.select(from, to));
    return button;
  }
  for (const [button, write] of [[layOut, format], [pack, minify]]) {
    button.addEventListener("click", () => {
      const { text, tokens } = check();
      editor.replace(write(text, tokens));
      check();
      editor.focus();
    });
  }
  const take = () => {
    if (!own && field.value !== editor.text()) editor.replace(field.value);
  };
  field.addEventListener("input", take); // another script has restored a draft
  root.defaultView.addEventListener("pageshow", take);
  kind?.addEventListener("change", check);
  field.form.addEventListener("submit", keep);
  root.defaultView.addEventListener("pagehide", keep, { capture: true }); // before drafts are kept
  field.form.addEventListener("formdata", (event) => event.formData.set(field.name, editor.text()));
  field.before(host);
  field.hidden = true;
  check();
}
