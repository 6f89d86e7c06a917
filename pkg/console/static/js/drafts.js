// What was typed into a form with data-draft and not sent survives Back and reload in this tab, for the same principal.
// The server keeps forms that were sent. Pages with unmasked values have no data-draft: storage has no encryption.

const prefix = "dlq-draft ";
const fieldsOf = (form) => [...form.elements].filter((field) => field.name !== "" && !/^(hidden|submit|button|password)$/.test(field.type));
const boxed = (field) => field.type === "checkbox" || field.type === "radio";
const typed = (form) => fieldsOf(form).map((field) => (boxed(field) ? field.checked : field.value));
const initial = (form) => fieldsOf(form).map((field) => {
  if (boxed(field)) return field.defaultChecked;
  if (field instanceof HTMLSelectElement) return ([...field.options].find((option) => option.defaultSelected) ?? field.options[0])?.value;
  return field.defaultValue;
});

export function keep(root) {
  for (const form of root.querySelectorAll("form[data-draft]")) {
    const name = prefix + JSON.stringify([root.body.dataset.principal, location.pathname + location.search]);
    const base = initial(form);
    const of = hash(base);
    let sent = "";
    restore(form, name, of);
    form.addEventListener("formdata", () => {
      sent = JSON.stringify(typed(form));
    });
    form.addEventListener("submit", (event) => {
      if (event.submitter?.value === "start") forget("dlq-chosen "); // the selected messages are taken
    });
    const save = () => {
      const now = typed(form);
      const changes = now.map((value, at) => (value === base[at] ? null : value));
      try {
        if (JSON.stringify(now) === sent || changes.every((value) => value === null)) sessionStorage.removeItem(name);
        else sessionStorage.setItem(name, JSON.stringify([of, changes]));
      } catch {
        // storage may be disabled or full: then only what was sent is kept
      }
    };
    root.defaultView.addEventListener("pagehide", save);
    form.addEventListener("input", save); // an editor reports its text when the page is hidden, after this script
  }
  root.querySelector('form[action="/sign-out"]')?.addEventListener("submit", () => forget("dlq-"));
}

function forget(beginning) {
  try {
    for (const name of Object.keys(sessionStorage)) if (name.startsWith(beginning)) sessionStorage.removeItem(name);
  } catch {
    // storage may be disabled
  }
}

// hash tells forms apart without a copy of their values.
function hash(values) {
  const text = JSON.stringify(values);
  let [a, b] = [1, 2];
  for (let at = 0; at < text.length; at++) {
    a = Math.imul(a ^ text.charCodeAt(at), 0x9e3779b1);
    b = Math.imul(b ^ text.charCodeAt(at), 0x5f356495);
  }
  return `${a}.${b}`;
}

// A draft of another form at the same address, such as one of a message that changed, is left alone.
function restore(form, name, base) {
  let values;
  try {
    const [of, changes] = JSON.parse(sessionStorage.getItem(name));
    if (of !== base) return;
    values = changes;
  } catch {
    return;
  }
  fieldsOf(form).forEach((field, at) => {
    if (values[at] === null || (boxed(field) ? field.checked : field.value) === values[at]) return;
    if (boxed(field)) field.checked = values[at];
    else field.value = values[at];
    field.closest("details")?.setAttribute("open", "");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
}
