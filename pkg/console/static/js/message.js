// Buttons that copy: an element's text (data-copy), a text of their own (data-text), or the text of an element of
// another page (data-copy and data-copy-from).

function textOf(element) {
  const lines = element.querySelectorAll("code.line");
  return lines.length ? Array.from(lines, (line) => line.textContent).join("\n") : element.textContent;
}

async function wanted(root, button) {
  const { text, copy, copyFrom } = button.dataset;
  if (text !== undefined) return text;
  if (!copyFrom) return textOf(root.getElementById(copy));
  const answer = await fetch(copyFrom);
  if (!answer.ok) throw new Error(answer.statusText);
  return textOf(new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(copy));
}

// Without a secure connection browsers offer only the old command.
async function write(root, text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = root.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  root.body.append(field);
  field.select();
  const done = root.execCommand("copy");
  field.remove();
  if (!done) throw new Error("the browser does not copy");
}

export function start(root) {
  for (const button of root.querySelectorAll("button.copy")) {
    const said = button.textContent;
    const short = said === "";
    button.addEventListener("click", async () => {
      try {
        await write(root, await wanted(root, button));
        button.textContent = short ? "✓" : "Copied";
      } catch {
        button.textContent = short ? "×" : "Not copied";
      }
      setTimeout(() => { button.textContent = said; }, 2000);
    });
  }
}
