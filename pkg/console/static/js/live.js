// Parts of a page that poll the server. A hidden page does not poll. A part that has had no answer for ten seconds is
// marked as stale, and a notice names the reason. A part is not replaced while the user selects text or presses a button in
// it, and keeps its scroll position.

const freshFor = 10_000; // milliseconds

export function watch(root) {
  const notice = root.getElementById("stale");
  const live = (element) => element.hasAttribute("data-live");
  const opened = Date.now();
  const answered = new Map(); // time of the last answer, by the id of the part

  root.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.detail.elt;
    if (live(part) && (root.hidden || selectsIn(root, part))) event.preventDefault();
  });

  // Further parts that come with the answer: one in which the user is at work is left alone.
  root.addEventListener("htmx:oobBeforeSwap", (event) => {
    if (inUse(root, event.detail.target)) event.preventDefault();
  });

  let scrolled = [];
  const boxes = (part) => [part, ...part.querySelectorAll(".scroll")];
  root.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    if (!live(part)) return;
    scrolled = boxes(part).map((box) => box.scrollLeft);
    if (pressesIn(part)) event.detail.shouldSwap = false;
  });
  root.addEventListener("htmx:afterSwap", (event) => {
    notice.hidden = true;
    answered.set(event.detail.target.id, Date.now());
    const part = root.getElementById(event.detail.target.id) ?? event.detail.elt;
    if (live(part)) boxes(part).forEach((box, at) => { box.scrollLeft = scrolled[at] ?? 0; });
    if (part.dataset.title) root.title = part.dataset.title;
  });

  const announce = (signedOut) => {
    notice.querySelector("[data-signed-out]").hidden = !signedOut;
    notice.querySelector("[data-silent]").hidden = signedOut;
    notice.hidden = false;
  };
  const failed = (event) => {
    const status = event.detail.xhr?.status ?? 0;
    if (!live(event.detail.elt) || (status >= 400 && status < 500 && status !== 401)) return;
    announce(status === 401);
  };
  root.addEventListener("htmx:sendError", failed);
  root.addEventListener("htmx:timeout", failed);
  root.addEventListener("htmx:responseError", failed);

  const mark = () => {
    for (const part of root.querySelectorAll("[data-live]")) {
      const stale = Date.now() - (answered.get(part.id) ?? opened) > freshFor;
      part.classList.toggle("stale", stale);
    }
  };
  setInterval(mark, 1000);
  root.addEventListener("visibilitychange", mark);
}

function inUse(root, part) {
  const typed = [...part.querySelectorAll("input:not([type=hidden])")].some((field) => field.value !== field.defaultValue);
  return typed || selectsIn(root, part) || pressesIn(part) ||
    part.querySelector("details[open]") !== null || part.matches(":has(input:focus)");
}

// A button that is replaced between the press and the release of the pointer gets no click.
function pressesIn(part) {
  return part.matches(":has(:active)");
}

function selectsIn(root, part) {
  const selection = root.getSelection();
  return selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode);
}
