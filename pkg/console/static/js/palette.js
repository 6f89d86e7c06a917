// The command palette: pages, actions of the page, views and topics, found by a few letters. It is loaded when it is
// first opened.
import { listbox, options, part } from "./listbox.js";

let known = null; // views and topics, read once for a page

export function open(root, { pages, actions }) {
  const before = root.activeElement;
  const dialog = root.createElement("dialog");
  dialog.className = "palette";
  dialog.setAttribute("aria-label", "Command palette");
  dialog.innerHTML = '<input type="text" aria-label="Page, view, topic, action or words to find" placeholder="Go to, do or find…" autocomplete="off" spellcheck="false"><ul class="options" id="palette-options" aria-label="Choices"></ul>';
  root.body.append(dialog);
  const [input, list] = dialog.children;
  const go = (path) => () => location.assign(path);
  const own = [
    ...actions.map(({ key, name, run }) => ({ label: name, aside: key, run: () => { dialog.close(); run(); } })),
    ...options(root, ".bar nav a").map((link) => ({
      label: link.textContent, aside: `g ${Object.keys(pages).find((key) => pages[key] === link.getAttribute("href"))}`, run: go(link.href),
    })),
    { label: "Topic mapping", aside: "page", run: go("/topics/mapping") },
    { label: "Quarantine", aside: "page", run: go("/quarantine") },
    { label: "Start a redrive", aside: "page", run: go("/redrives/new") },
  ];
  const box = listbox(input, list, {
    first: true,
    choices: async (text) => {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = ({ label }) => words.every((word) => label.toLowerCase().includes(word));
      if (words.length === 0) return own;
      known ??= read();
      const found = [...own, ...await known].filter(fits).slice(0, 12);
      const id = text.trim();
      if (/^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(id)) found.unshift({ label: `Message ${id}`, aside: "open", run: go(`/messages/${id}`) });
      return [...found, { label: `Find messages: ${text.trim()}`, aside: "search", run: go(`/messages?q=${encodeURIComponent(text.trim())}`) }];
    },
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (root.activeElement === root.body) before?.focus?.();
  });
  dialog.showModal();
  box.update();
}

async function read() {
  const [page, topics] = await Promise.all([part("views"), part("known-topics")]);
  return [
    ...options(page, ".views li > a").map((link) => ({
      label: link.textContent.trim(), aside: link.closest(".saved") ? "saved view" : "messages", run: () => location.assign(link.getAttribute("href")),
    })),
    ...options(topics, "#known-topics option").map(({ value }) => ({
      label: value, aside: "messages of the topic", run: () => location.assign(`/messages?topic=${encodeURIComponent(value)}`),
    })),
  ];
}
