// Parts of a page that fetch themselves anew. Nobody's hidden page asks for anything,
// and a part that could not be fetched says that it is old.

export function watch(root) {
  const stale = root.getElementById("stale");
  root.addEventListener("htmx:beforeRequest", (event) => {
    if (root.hidden && event.detail.elt.hasAttribute("data-live")) event.preventDefault();
  });
  const failed = (event) => {
    const signedOut = event.detail.xhr?.status === 401;
    stale.querySelector("[data-signed-out]").hidden = !signedOut;
    stale.querySelector("[data-silent]").hidden = signedOut;
    stale.hidden = false;
  };
  root.addEventListener("htmx:sendError", failed);
  root.addEventListener("htmx:timeout", failed);
  root.addEventListener("htmx:responseError", failed);
  root.addEventListener("htmx:afterSwap", () => { stale.hidden = true; });
}
