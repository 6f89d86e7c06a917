// Behaviour of a message list: the sentence about the selection, views saved in the browser, and a notice of new
// messages.

export function start(root) {
  const form = root.getElementById("chosen");
  if (form) choosing(root, form);
  saving(root);
  telling(root);
}

function choosing(root, form) {
  const boxes = [...root.querySelectorAll('input[name="ids"]')];
  const [some, all] = form.querySelectorAll('input[name="what"]');
  const every = form.querySelector("[data-all]");
  const meant = form.querySelector("[data-meant]");
  const buttons = [...form.querySelectorAll('button[name="action"]:not(:disabled)')];

  const say = () => {
    const n = boxes.filter((box) => box.checked).length;
    for (const button of buttons) button.disabled = some.checked && n === 0;
    every.hidden = all.checked;
    every.textContent = n === boxes.length ? "select none" : `select the ${boxes.length}`;
    const many = root.getElementById("all-count").textContent;
    let sentence = `${n} of the ${boxes.length} on this page ${n === 1 ? "is" : "are"} selected.`;
    if (n === 0) sentence = "Nothing is selected.";
    if (all.checked) sentence = `All ${many} that match are selected, not only the ${boxes.length} on this page.`;
    if (meant.textContent !== sentence) meant.textContent = sentence;
  };
  every.hidden = false;
  every.addEventListener("click", () => {
    const on = boxes.some((box) => !box.checked);
    for (const box of boxes) box.checked = on;
    some.checked = true;
    say();
  });
  for (const box of boxes) box.addEventListener("change", () => { some.checked = true; say(); });
  for (const radio of [some, all]) radio.addEventListener("change", say);
  root.addEventListener("htmx:oobAfterSwap", say);
  root.defaultView.addEventListener("pageshow", say); // after "back" the boxes keep their checks
  say();
}

// Saved views: names and addresses of lists, kept in this browser.
const kept = "dlq-views";

function views() {
  try {
    const all = JSON.parse(localStorage.getItem(kept) ?? "[]");
    return Array.isArray(all) ? all.filter((v) => typeof v?.name === "string" && /^\/(messages|archive)(\?|$)/.test(v?.at)) : [];
  } catch {
    return [];
  }
}

function saving(root) {
  const list = root.querySelector("[data-saved]");
  const form = root.querySelector("[data-save]");
  if (!list || !form) return;
  const keep = (all) => {
    try {
      localStorage.setItem(kept, JSON.stringify(all));
    } catch {
      return; // storage may be disabled; then there are no saved views
    }
    show();
  };
  const here = () => {
    const query = new URLSearchParams(location.search);
    for (const name of ["cursor", "opened", "done", "count", "seen"]) query.delete(name);
    return location.pathname + (query.size ? `?${query}` : "");
  };
  const show = () => {
    const mine = views().filter((view) => view.at.split("?")[0] === location.pathname);
    list.replaceChildren(...mine.map((view) => {
      const item = root.createElement("li");
      const link = root.createElement("a");
      link.href = view.at;
      link.textContent = view.name;
      if (view.at === here()) link.setAttribute("aria-current", "page");
      const remove = root.createElement("button");
      remove.type = "button";
      remove.className = "quiet";
      remove.textContent = "×";
      remove.setAttribute("aria-label", `Delete the view ${view.name}`);
      remove.addEventListener("click", () => keep(views().filter((other) => other.name !== view.name || other.at !== view.at)));
      item.append(link, remove);
      return item;
    }));
    list.hidden = mine.length === 0;
    list.setAttribute("aria-label", "Saved views");
    form.hidden = here() === location.pathname;
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const input = form.querySelector("input");
    const name = input.value.trim();
    if (!name) { input.focus(); return; }
    const same = (view) => view.name === name && view.at.split("?")[0] === location.pathname;
    keep([...views().filter((view) => !same(view)), { name, at: here() }]);
    input.value = "";
  });
  show();
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
