// Buttons that copy the text next to them. They are shown only where the browser supports copying.

function textOf(element) {
  const lines = element.querySelectorAll("code.line");
  return lines.length ? Array.from(lines, (line) => line.textContent).join("\n") : element.textContent;
}

export function start(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("button[data-copy]")) {
    const said = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = root.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(textOf(source));
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not copied";
      }
      setTimeout(() => { button.textContent = said; }, 2000);
    });
  }
}
