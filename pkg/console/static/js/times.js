// Relative times: they tick, and each shows its exact time, in UTC and in the time zone of the browser, when it is
// pointed at, focused or tapped.

const second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;
const whole = (ms, unit) => Math.floor(ms / unit);

function rough(ms) {
  if (ms < minute) return `${whole(ms, second)} s`;
  if (ms < hour) return `${whole(ms, minute)} min`;
  if (ms < 2 * day) return `${whole(ms, hour)} h`;
  return `${whole(ms, day)} d`;
}

// ago has the words of the server.
export function ago(ms) {
  if (ms <= -second) return `in ${rough(-ms)}`;
  return ms < 5 * second ? "just now" : `${rough(ms)} ago`;
}

function exact(at) {
  const utc = `${at.toISOString().replace("T", " ").replace("Z", " UTC")}`;
  const local = at.toLocaleString(undefined, {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
  });
  return at.getTimezoneOffset() === 0 ? utc : `${utc}\n${local}`;
}

export function start(root) {
  // The server's clock counts: the age of a time in the page is measured from when the page was rendered.
  const rendered = Date.parse(root.documentElement.dataset.now);
  const skew = Number.isNaN(rendered) ? 0 : rendered - Date.now();
  const tick = () => {
    if (root.hidden) return;
    for (const time of root.querySelectorAll("time[data-ago]")) {
      const words = ago(Date.now() + skew - Date.parse(time.dateTime));
      if (time.textContent !== words) time.textContent = words;
    }
  };
  // Those outside lists can be reached with the keyboard; in a list they would be a stop for each row.
  for (const time of root.querySelectorAll("dl time[data-ago], .figures time[data-ago]")) time.tabIndex = 0;
  setInterval(tick, 5 * second);
  root.addEventListener("visibilitychange", tick);
  showing(root);
}

// showing shows the exact time in one note below the time. The title, for browsers without scripts, gives way to it.
function showing(root) {
  const note = root.createElement("div");
  note.className = "exact";
  note.role = "tooltip";
  note.id = "exact-time";
  note.hidden = true;
  root.body.append(note);
  let of = null;
  const hide = () => {
    of?.removeAttribute("aria-describedby");
    of = null;
    note.hidden = true;
  };
  const show = (time) => {
    const at = new Date(time.dateTime);
    if (time === of || Number.isNaN(at.getTime())) return;
    hide();
    of = time;
    time.removeAttribute("title");
    time.setAttribute("aria-describedby", note.id);
    note.textContent = exact(at);
    note.hidden = false;
    const where = time.getBoundingClientRect();
    const left = Math.min(where.left, root.documentElement.clientWidth - note.offsetWidth - 8);
    const below = where.bottom + 4 + note.offsetHeight <= root.documentElement.clientHeight;
    note.style.left = `${Math.max(8, left)}px`;
    note.style.top = `${below ? where.bottom + 4 : where.top - 4 - note.offsetHeight}px`;
  };
  const timeOf = (event) => (event.target instanceof Element ? event.target.closest("time[data-ago]") : null);
  root.addEventListener("pointerover", (event) => {
    const time = timeOf(event);
    if (time) show(time);
    else if (of !== null && of !== root.activeElement) hide();
  });
  for (const kind of ["click", "focusin"]) {
    root.addEventListener(kind, (event) => {
      const time = timeOf(event);
      if (time) show(time);
      else hide();
    });
  }
  root.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  root.addEventListener("scroll", hide, { capture: true, passive: true });
  root.addEventListener("htmx:afterSwap", () => { if (of && !of.isConnected) hide(); });
}
