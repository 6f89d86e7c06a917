// Functions that the tests call in a page. The file is one expression, evaluated
// again for each call, because pages are replaced.
(() => {
  const plain = (text) => (text ?? "").replace(/\s+/g, " ").trim();
  const same = (text) => plain(text).toLowerCase();
  const visible = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
  const isSelector = (what) => /^[#.[]/.test(what);
  const root = (scope) => (scope === "" ? document.documentElement : document.querySelector(scope));
  // Shadow roots are searched too.
  const all = (r, selector) => [...r.querySelectorAll(selector),
    ...[...r.querySelectorAll("*")].flatMap((e) => (e.shadowRoot ? all(e.shadowRoot, selector) : []))];
  const within = (scope, selector) => {
    const r = root(scope);
    return r ? all(r, selector).filter(visible) : [];
  };
  const clickable = "a[href], button, summary, label, input[type=submit], input[type=button], " +
    "[role=button], [role=link], [role=tab], [role=menuitem], [role=option]";
  const fillable = "input:not([type=hidden]), textarea, select, [contenteditable=true]";
  const byIds = (ids) => plain((ids ?? "").split(/\s+/).map((id) => document.getElementById(id)?.textContent).join(" "));
  // The text of a label without the values of the controls inside it.
  const labelText = (label) => {
    const copy = label.cloneNode(true);
    for (const control of copy.querySelectorAll("select, textarea, input, button")) control.remove();
    return copy.textContent;
  };
  const nameOf = (e) =>
    byIds(e.getAttribute("aria-labelledby")) || plain(e.getAttribute("aria-label")) ||
    (e.labels?.length ? plain([...e.labels].map(labelText).join(" ")) : "") ||
    plain(e.innerText) || plain(e.value) || plain(e.title) || plain(e.placeholder);
  // The only element of this name. Names that contain the words count if none is equal.
  const only = (candidates, what) => {
    const exact = candidates.filter((e) => same(nameOf(e)) === same(what));
    const found = exact.length ? exact : candidates.filter((e) => same(nameOf(e)).includes(same(what)));
    if (found.length === 1) return { element: found[0] };
    const names = (found.length ? found : candidates).map(nameOf).filter((n) => n).slice(0, 30).join(" | ");
    return { problem: (found.length ? "there are " + found.length + " of that name: " : "there are only: ") + names };
  };
  const pick = (scope, what, kinds) => {
    if (!isSelector(what)) return only(within(scope, kinds), what);
    const found = within(scope, what);
    if (found.length === 0) return { problem: "nothing visible matches" };
    return { element: found[0] };
  };
  return {
    // The point to click: the middle of the element of this name, once nothing covers it.
    point(scope, what) {
      const { element: e, problem } = pick(scope, what, clickable);
      if (problem) return { problem };
      if (e.disabled || e.getAttribute("aria-disabled") === "true") return { problem: "it is disabled" };
      e.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
      const r = e.getClientRects()[0];
      const [x, y] = [r.x + r.width / 2, r.y + r.height / 2];
      const top = document.elementFromPoint(x, y);
      if (!top || !(e.contains(top) || top.contains(e) && top.matches("label, a, button, summary"))) {
        return { problem: "it is covered by " + (top ? top.outerHTML.slice(0, 120) : "no clickable element") };
      }
      return { x, y };
    },
    // Focuses a field and selects its content. An option or a date is set directly,
    // because no key sequence does it in every locale.
    enter(scope, what, text) {
      const { element: e, problem } = pick(scope, what, fillable);
      if (problem) return { problem };
      if (e.disabled || e.readOnly) return { problem: "it cannot be written to" };
      e.scrollIntoView({ block: "center", behavior: "instant" });
      e.focus();
      const changed = () => {
        e.dispatchEvent(new Event("input", { bubbles: true }));
        e.dispatchEvent(new Event("change", { bubbles: true }));
      };
      if (e.localName === "select") {
        const option = [...e.options].find((o) => same(o.text) === same(text) || o.value === text);
        if (!option) return { problem: "its choices are " + [...e.options].map((o) => plain(o.text)).join(" | ") };
        e.value = option.value;
        changed();
        return { done: true };
      }
      if (/^(date|datetime-local|time|month|week|color|range)$/.test(e.type)) {
        e.value = text;
        changed();
        return e.value === text ? { done: true } : { problem: "it took " + e.value };
      }
      if (e.isContentEditable) document.execCommand("selectAll");
      e.select?.();
      return { done: false };
    },
    value(scope, what) {
      const { element: e, problem } = pick(scope, what, fillable);
      if (problem) return { problem };
      if (e.isContentEditable) return { text: [...e.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n") };
      return { text: e.type === "checkbox" ? String(e.checked) : e.value };
    },
    text(scope, selector) {
      const [e] = within(scope, selector);
      return e ? { text: plain(e.innerText) } : { problem: "nothing visible matches" };
    },
    count: (scope, selector) => within(scope, selector).length,
    // Whether the page shows text, and the beginning of all that it shows.
    shows(scope, text) {
      if (document.readyState !== "complete") return { problem: "the page is still loading" };
      const now = plain(root(scope)?.innerText);
      return { done: now.toLowerCase().includes(same(text)), text: now.slice(0, 1500) };
    },
  };
})()
