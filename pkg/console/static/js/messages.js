// Behaviour of a message list: suggestions for the search, the sentence about the selection, and a notice of new
// messages.
import { listbox, options, part } from "./listbox.js";

export function start(root) {
  suggesting(root);
  const form = root.getElementById("chosen");
  if (form) choosing(root, form);
  telling(root);
}

// suggesting completes the word that is typed at the end of the search: a field, a status or a topic.
function suggesting(root) {
  const input = root.getElementById("filter-q");
  const list = root.createElement("ul");
  list.id = "suggestions";
  list.className = "options";
  list.setAttribute("aria-label", "Suggestions");
  input.form.append(list);
  const fields = options(root, "#search-tokens option").map(({ value, text }) => ({ value, aside: text }));
  let topics = null;
  const box = listbox(input, list, {
    choices: async (text) => {
      const word = text.match(/\S*$/)[0];
      if (word === "" || input.selectionStart < text.length) return [];
      let known = fields;
      if (word.startsWith("topic:")) {
        topics ??= part("known-topics").then((page) => options(page, "#known-topics option").map(({ value }) => ({ value: `topic:${value}` })));
        known = (await topics).filter(({ value }) => value.includes(word.slice("topic:".length)));
      } else known = fields.filter(({ value }) => value.startsWith(word) && (value.endsWith(":") !== word.includes(":")));
      return known.filter(({ value }) => value !== word).slice(0, 10).map(({ value, aside }) => ({
        label: value, aside,
        run: () => {
          input.value = text.slice(0, text.length - word.length) + value + (value.endsWith(":") ? "" : " ");
          box.update();
        },
      }));
    },
  });
  input.addEventListener("blur", box.close);
  if (root.activeElement === input) box.update(); // typed before this script was loaded
}

// The selection is kept while the user turns the pages of a list, in this tab.
const mostKept = 1000; // that an export takes

function choosing(root, form) {
  const boxes = [...root.querySelectorAll('input[name="ids"]')];
  const [some, all] = form.querySelectorAll('input[name="what"]');
  const every = root.querySelector("[data-all]");
  const none = form.querySelector("[data-none]");
  const meant = form.querySelector("[data-meant]");
  const buttons = [...form.querySelectorAll('button[name="action"]:not(:disabled)')];
  const elsewhere = kept(form, boxes);

  const say = () => {
    const here = boxes.filter((box) => box.checked).length;
    const others = elsewhere.keep();
    const n = here + others;
    for (const button of buttons) button.disabled = some.checked && n > mostKept;
    every.checked = here === boxes.length;
    every.indeterminate = here > 0 && here < boxes.length;
    none.hidden = all.checked;
    const many = root.getElementById("all-count").textContent;
    let sentence = `${here} of the ${boxes.length} on this page ${here === 1 ? "is" : "are"} selected.`;
    if (others > 0) sentence = `${n} ${n === 1 ? "is" : "are"} selected, ${others} of them on other pages.`;
    if (n === 0) sentence = "Nothing is selected.";
    if (n > mostKept) sentence = `${n} are selected: at most ${mostKept} can be. Use a filter and "all that match".`;
    if (all.checked) sentence = `All ${many} that match are selected, not only the ${boxes.length} on this page.`;
    if (meant.textContent !== sentence) meant.textContent = sentence;
  };
  every.classList.remove("unready");
  every.addEventListener("change", () => {
    for (const box of boxes) box.checked = every.checked;
    some.checked = true;
    say();
  });
  none.addEventListener("click", () => {
    for (const box of boxes) box.checked = false;
    elsewhere.clear();
    say();
  });
  for (const box of boxes) box.addEventListener("change", () => { some.checked = true; say(); });
  for (const radio of [some, all]) radio.addEventListener("change", say);
  root.addEventListener("htmx:oobAfterSwap", say);
  root.defaultView.addEventListener("pageshow", say); // after "back" the boxes keep their checks
  say();
}

// kept restores the selection of this page, and adds that of the others to the form as hidden fields.
function kept(form, boxes) {
  const name = "dlq-chosen " + form.dataset.kept;
  let stored = [];
  try {
    stored = JSON.parse(sessionStorage.getItem(name) ?? "[]");
  } catch {
    // storage may be disabled: then only the boxes of the page count
  }
  const here = new Set(boxes.map((box) => box.value));
  for (const box of boxes) box.checked ||= stored.includes(box.value);
  const fields = stored.filter((id) => !here.has(id)).map((id) => {
    const field = form.ownerDocument.createElement("input");
    Object.assign(field, { type: "hidden", name: "ids", value: id });
    return field;
  });
  form.append(...fields);
  return {
    keep() {
      const ids = [...fields.map((field) => field.value), ...boxes.filter((box) => box.checked).map((box) => box.value)];
      try {
        if (ids.length > 0) sessionStorage.setItem(name, JSON.stringify(ids));
        else sessionStorage.removeItem(name);
      } catch {
        // as above
      }
      return fields.length;
    },
    clear() {
      for (const field of fields.splice(0)) field.remove();
    },
  };
}

// The counter of new messages is replaced every few seconds: screen readers announce only a changed sentence.
function telling(root) {
  const news = root.querySelector("[data-news]");
  if (!news) return;
  root.addEventListener("htmx:afterSwap", () => {
    const sentence = root.querySelector("#arrivals a")?.textContent ?? "";
    if (news.textContent !== sentence) news.textContent = sentence;
  });
}
