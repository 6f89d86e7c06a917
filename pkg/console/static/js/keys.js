// Keyboard shortcuts. None of them changes anything by itself; they can be turned off, and do nothing while the user
// types.

const off = "dlq-keys-off";
const pages = { o: "/", m: "/messages", g: "/groups", r: "/redrives", t: "/topics", a: "/archive", u: "/audit" };
const help = [
  [["/"], "find messages"],
  [["j"], "next row"], [["k"], "previous row"],
  [["x"], "select or deselect the row"],
  [["Enter"], "open the row"],
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
  let going = 0; // when g was pressed
  root.addEventListener("keydown", (event) => {
    if (turnedOff() || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || typing(event.target)) return;
    if (root.querySelector("dialog[open]")) return;
    const went = event.timeStamp - going < 1500 && going > 0;
    going = 0;
    if (went && pages[event.key]) {
      if (root.querySelector(`nav a[href="${pages[event.key]}"]`)) location.assign(pages[event.key]);
      return;
    }
    if (event.key === "g") { going = event.timeStamp; return; }
    if (press(root, event.key)) event.preventDefault();
  });
}

function typing(target) {
  return target instanceof Element && (target.closest("textarea, select, [contenteditable]") !== null ||
    target.matches("input:not([type=checkbox], [type=radio])"));
}

// press runs the shortcut of a key, and reports whether there is one on this page.
function press(root, key) {
  switch (key) {
    case "/": {
      const find = root.getElementById("find");
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
      const row = root.activeElement?.closest?.("[data-row]");
      const link = row === root.activeElement ? row?.querySelector("a[data-open], a") : null;
      link?.click();
      return Boolean(link);
    }
    default: return false;
  }
}

function at(root) {
  return root.activeElement?.closest?.("[data-row]") ?? root.querySelector("[data-row][data-at]");
}

// move moves the focus to another row, at most to the first or the last.
function move(root, by) {
  const rows = [...root.querySelectorAll("[data-row]")];
  if (rows.length === 0) return false;
  const now = rows.indexOf(at(root));
  const next = rows[now < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, now + by))];
  for (const row of rows) row.removeAttribute("data-at");
  next.setAttribute("data-at", "");
  next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  return true;
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
      if (i > 0) term.append(" then ");
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
