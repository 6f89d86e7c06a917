// A text without its middle is shown as a whole when it is tapped. Within a link the tap follows the link.
export function start(root) {
  root.addEventListener("click", (event) => {
    const text = event.target instanceof Element ? event.target.closest("[data-whole]") : null;
    if (!text || text.closest("a, button, summary")) return;
    text.textContent = text.title;
    text.removeAttribute("title");
    text.removeAttribute("data-whole");
  });
}
