// A list of choices under an input: arrows move, Enter chooses, as in the pattern "combobox" of ARIA.

// listbox connects an input with a list. choices(text) returns [{label, aside, run}], perhaps later; first selects the
// first choice, so that Enter takes it.
export function listbox(input, list, { choices, first }) {
  let shown = [];
  let selected = -1;
  let turn = 0;
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  list.setAttribute("role", "listbox");

  const select = (n) => {
    selected = n;
    [...list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === n)));
    const option = list.children[n];
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  };
  const close = () => {
    turn++;
    shown = [];
    list.replaceChildren();
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    select(-1);
  };
  const update = async () => {
    const mine = ++turn;
    const found = await choices(input.value);
    if (mine !== turn) return; // something was typed meanwhile
    shown = found;
    list.replaceChildren(...shown.map(({ label, aside }, i) => {
      const option = input.ownerDocument.createElement("li");
      option.id = `${list.id}-${i}`;
      option.setAttribute("role", "option");
      option.append(label);
      if (aside) {
        const more = input.ownerDocument.createElement("span");
        more.className = "aside";
        more.textContent = aside;
        option.append(more);
      }
      option.addEventListener("pointerdown", (event) => event.preventDefault()); // the input keeps the focus
      option.addEventListener("click", () => run(i));
      return option;
    }));
    list.hidden = shown.length === 0;
    input.setAttribute("aria-expanded", String(shown.length > 0));
    select(first && shown.length > 0 ? 0 : -1);
  };
  const run = (n) => {
    const choice = shown[n];
    close();
    choice.run();
  };
  input.addEventListener("input", update);
  input.addEventListener("keydown", (event) => {
    if (event.isComposing || shown.length === 0) return;
    if (event.key === "ArrowDown") select(selected + 1 < shown.length ? selected + 1 : 0);
    else if (event.key === "ArrowUp") select(selected > 0 ? selected - 1 : shown.length - 1);
    else if (event.key === "Enter" && selected >= 0) run(selected);
    else if (event.key === "Escape" && !first) close();
    else return;
    event.preventDefault();
  });
  close();
  return { update, close };
}

// part returns the list of messages with only one part filled in: known-topics or views.
export async function part(target) {
  try {
    const answer = await fetch("/messages", { headers: { "HX-Request": "true", "HX-Target": target } });
    return new DOMParser().parseFromString(answer.ok ? await answer.text() : "", "text/html");
  } catch {
    return new DOMParser().parseFromString("", "text/html");
  }
}

export function options(root, selector) { return [...root.querySelectorAll(selector)]; }
