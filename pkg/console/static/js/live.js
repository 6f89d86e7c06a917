// Parts of a page that poll the server. A hidden page does not poll, and a part that cannot be fetched shows a notice
// that it is stale. A part is not replaced while the user selects text in it, and keeps its scroll position.

export function watch(root) {
  const stale = root.getElementById("stale");
  const live = (element) => element.hasAttribute("data-live");

  root.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.detail.elt;
    if (live(part) && (root.hidden || selectsIn(root, part))) event.preventDefault();
  });

  let scrolled = [];
  const boxes = (part) => [part, ...part.querySelectorAll(".scroll")];
  root.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    if (live(part)) scrolled = boxes(part).map((box) => box.scrollLeft);
  });
  root.addEventListener("htmx:afterSwap", (event) => {
    stale.hidden = true;
    const part = root.getElementById(event.detail.target.id) ?? event.detail.elt;
    if (live(part)) boxes(part).forEach((box, at) => { box.scrollLeft = scrolled[at] ?? 0; });
  });

  const failed = (event) => {
    const status = event.detail.xhr?.status ?? 0;
    if (!live(event.detail.elt) || (status >= 400 && status < 500 && status !== 401)) return;
    const signedOut = status === 401;
    stale.querySelector("[data-signed-out]").hidden = !signedOut;
    stale.querySelector("[data-silent]").hidden = signedOut;
    stale.hidden = false;
  };
  root.addEventListener("htmx:sendError", failed);
  root.addEventListener("htmx:timeout", failed);
  root.addEventListener("htmx:responseError", failed);
}

function selectsIn(root, part) {
  const selection = root.getSelection();
  return selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode);
}
