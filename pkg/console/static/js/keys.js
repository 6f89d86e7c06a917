// Keyboard shortcuts. None of them changes anything by itself: an action opens its confirmation. They can be turned
// off, and do nothing while the user types.

const off = "dlq-keys-off";
const pages = { o: "/", m: "/messages", g: "/groups", r: "/redrives", t: "/topics", a: "/archive", u: "/audit" };
const help = [
  [["Ctrl", "K"], "find a page, a view or an action"],
  [["/"], "find messages"],
  [["j"], "next row"], [["k"], "previous row"],
  [["x"], "select or deselect the row"],
  [["Enter"], "open the row"],
  [["r"], "retry: what is selected, or open"], [["e"], "edit and retry"], [["d"], "mark dead"], [["c"], "copy the id"],
  [["."], "go to the actions"],
  [["g", "o"], "go to the overview"], [["g", "m"], "messages"], [["g", "g"], "groups"], [["g", "r"], "redrives"],
  [["g", "t"], "topics"], [["g", "a"], "archive"], [["g", "u"], "audit"],
  [["?"], "show this help"],
];

export function start(root) {
  const button = root.querySelector("[data-keys]");
  if (!button || button.dataset.ready) return;
  button.dataset.ready = "true";
  button.hidden = false;
  button.addEventListener("click", () => show(root));
  for (const opener of root.querySelectorAll("[data-palette]")) {
    opener.hidden = false;
    opener.addEventListener("click", () => palette(root));
  }
  let going = 0; // when g was pressed
  root.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || root.querySelector("dialog[open]")) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      palette(root);
      return;
    }
    if (turnedOff() || event.ctrlKey || event.metaKey || event.altKey || typing(event.composedPath()[0])) return;
    const went = event.timeStamp - going < 1500 && going > 0;
    going = 0;
    if (went && pages[event.key]) {
      if (root.querySelector(`nav a[href="${pages[event.key]}"]`)) location.assign(pages[event.key]);
      return;
    }
    if (event.key === "g") { going = event.timeStamp; return; }
    if (press(root, event.key)) event.preventDefault();
  });
  // A live part replaces its rows: the new row of the same object takes the place of the old one.
  root.addEventListener("htmx:afterSwap", () => {
    const row = place && !root.querySelector("tr[data-current]") && rows(root).find((r) => opens(r).getAttribute("href") === place);
    if (row) mark(root, row, root.activeElement === root.body);
  });
}

async function palette(root) {
  (await import("./palette.js")).open(root, { pages, actions: actions(root) });
}

function typing(target) {
  return target instanceof Element && (target.closest("textarea, select, [contenteditable]") !== null ||
    target.matches("input:not([type=checkbox], [type=radio])"));
}

// press runs the shortcut of a key, and reports whether there is one on this page.
function press(root, key) {
  switch (key) {
    case "/": {
      const find = root.getElementById("filter-q") ?? root.getElementById("find");
      find?.focus();
      find?.select();
      return Boolean(find);
    }
    case "?": show(root); return true;
    case "j": return move(root, 1);
    case "k": return move(root, -1);
    case "x": {
      const box = at(root)?.querySelector('input[type="checkbox"]');
      box?.click();
      return Boolean(box);
    }
    case "Enter": {
      const row = root.activeElement?.matches("tr[data-current]") ? root.activeElement : null;
      if (row) opens(row).click();
      return Boolean(row);
    }
    case ".": {
      const first = [...root.querySelectorAll(bars)].find(usable);
      first?.focus();
      return Boolean(first);
    }
    default: {
      const action = actions(root).find((a) => a.key === key);
      action?.run();
      return Boolean(action);
    }
  }
}

const bars = ":is(main .chosen, main .acts, main .thumb, main #moves, main .deeds, main .page-head .actions, main .actions) :is(button, a, summary)";

const usable = (element) => !element.disabled && element.checkVisibility({ visibilityProperty: true });

// actions lists what the keys r, e, d and c do on this page, with their names. Controls are found by where they lead.
export function actions(root) {
  const found = [];
  const add = (key, name, run) => { if (run && !found.some((a) => a.key === key)) found.push({ key, name, run }); };
  const row = at(root);
  const control = (selector) => [...root.querySelectorAll(selector)].find((e) => !e.disabled);
  const id = uuid(row ? opens(row).getAttribute("href") : "") ?? uuid(location.pathname);
  const chosen = root.getElementById("chosen");
  if (chosen) {
    const some = root.querySelector('input[name="ids"]:checked, #chosen input[type="hidden"][name="ids"]') || chosen.querySelector('[value="all"]:checked');
    const bulk = (value) => {
      const button = control(`#chosen button[value="${value}"]`);
      if (!button || !(some || row)) return null;
      return () => { // the next page is a preview
        const box = some ? null : row.querySelector('input[name="ids"]');
        if (box) box.checked = true;
        chosen.requestSubmit(button);
        if (box) box.checked = false; // the form has been read: the row is not selected when the user comes back
      };
    };
    add("r", "Retry the selected messages", bulk("retry"));
    add("d", "Mark the selected messages dead", bulk("dead"));
    if (row && id) add("e", "Edit and retry the message", () => location.assign(`/messages/${id}/edit`));
  } else {
    add("r", "Retry", reach(control('main form[action$="/retry"] button')) ?? follow(control('main a[href*="action=retry"]')));
    add("e", "Edit and retry", follow(control('main a[href$="/edit"]')));
    add("d", "Mark dead", reach(control('main form[action$="/dead"] button')) ?? follow(control('main a[href*="action=dead"]')));
  }
  if (id && navigator.clipboard) add("c", "Copy the id", () => copy(root, id));
  return found;
}

function uuid(path) { return path?.match(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/)?.[0]; }

// reach unfolds the form of a button, and puts the focus on its first field or on the button: Enter confirms.
function reach(button) {
  if (!button) return null;
  return () => {
    const folded = button.closest("details");
    if (folded) folded.open = true;
    const first = button.form?.querySelector("input:not([type=hidden]), textarea, select");
    (folded && first ? first : button).focus();
  };
}

function follow(link) { return link && (() => link.click()); }

async function copy(root, id) {
  const notice = root.getElementById("said");
  try {
    await navigator.clipboard.writeText(id);
    notice.textContent = `Copied ${id}`;
  } catch {
    notice.textContent = "The browser does not allow to copy.";
  }
  setTimeout(() => { notice.textContent = ""; }, 3000);
}

// Rows are those of any table whose objects can be opened.
function rows(root) {
  return [...root.querySelectorAll("main tbody tr")].filter((row) => opens(row) && row.checkVisibility() && !row.closest("figure"));
}

function opens(row) {
  return row.querySelector("a[data-open]") ?? row.querySelector('th[scope="row"] a[href]') ?? row.querySelector("a[href]");
}

let place = null; // what the row at which the keys are opens

function at(root) {
  const row = root.activeElement?.closest?.("main tbody tr");
  return row && opens(row) ? row : root.querySelector("tr[data-current]");
}

// move moves the focus to another row, at most to the first or the last.
function move(root, by) {
  const all = rows(root);
  if (all.length === 0) return false;
  const now = all.indexOf(at(root));
  mark(root, all[now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, now + by))], true);
  return true;
}

function mark(root, row, focus) {
  for (const other of root.querySelectorAll("tr[data-current]")) other.removeAttribute("data-current");
  row.setAttribute("data-current", "");
  place = opens(row).getAttribute("href");
  row.tabIndex = -1;
  if (!focus) return;
  row.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

function turnedOff() {
  try {
    return localStorage.getItem(off) === "1";
  } catch {
    return false;
  }
}

function show(root) {
  const dialog = root.querySelector("dialog.keys") ?? make(root);
  dialog.showModal();
}

function make(root) {
  const add = (parent, name, text = "") => {
    const element = root.createElement(name);
    element.textContent = text;
    parent.append(element);
    return element;
  };
  const dialog = add(root.body, "dialog");
  dialog.className = "keys";
  dialog.setAttribute("aria-labelledby", "keys-title");
  add(dialog, "h2", "Keyboard").id = "keys-title";
  const list = add(dialog, "dl");
  for (const [keys, what] of help) {
    const term = add(list, "dt");
    keys.forEach((key, i) => {
      if (i > 0) term.append(keys[0] === "Ctrl" ? " " : " then ");
      add(term, "kbd", key);
    });
    add(list, "dd", what);
  }
  const label = add(dialog, "label");
  label.className = "check";
  const box = add(label, "input");
  box.type = "checkbox";
  box.checked = !turnedOff();
  label.append("Keyboard shortcuts are on in this browser");
  box.addEventListener("change", () => {
    try {
      localStorage.setItem(off, box.checked ? "0" : "1");
    } catch {
      box.checked = true; // not stored, so the shortcuts stay on
    }
  });
  const end = add(dialog, "form");
  end.method = "dialog";
  add(end, "button", "Close").className = "first";
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  return dialog;
}
