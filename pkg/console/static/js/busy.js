// Shows at the button of a sent form that the work is under way, until the answer comes.
export function start(root) {
  root.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method !== "post") return;
    event.submitter?.setAttribute("aria-busy", "true"); // a disabled button would not be sent with the form
  });
  root.defaultView.addEventListener("pageshow", () => { // the browser may show the page again as it was left
    for (const button of root.querySelectorAll("button[aria-busy]")) button.removeAttribute("aria-busy");
  });
}
