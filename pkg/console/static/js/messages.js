// What a list of messages does by itself: the sentence of what is chosen, views that
// the browser keeps, and a word when something new has come.

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
    if (all.checked) sentence = `All ${many} that match are meant, not only the ${boxes.length} on this page.`;
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
  root.defaultView.addEventListener("pageshow", say); // a page that one comes back to keeps its checks
  say();
}

// Views are addresses of lists by the names that they were given, in this browser.
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
      return; // browsers may refuse; then there are no saved views
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
      remove.setAttribute("aria-label", `Forget the view ${view.name}`);
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

// The part that counts what is new is replaced every few seconds: only what changes
// in it is told.
function telling(root) {
  const news = root.querySelector("[data-news]");
  if (!news) return;
  root.addEventListener("htmx:afterSwap", () => {
    const sentence = root.querySelector("#arrivals a")?.textContent ?? "";
    if (news.textContent !== sentence) news.textContent = sentence;
  });
}
