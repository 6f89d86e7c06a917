// Menus (details.drop) close by Escape and by a click elsewhere, as menus do.

export function start(root) {
  const open = () => [...root.querySelectorAll("details.drop[open]")];
  root.addEventListener("click", (event) => {
    for (const menu of open()) if (!menu.contains(event.target)) menu.open = false;
  });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    for (const menu of open()) {
      menu.open = false;
      if (menu.contains(root.activeElement)) menu.querySelector("summary").focus();
      event.preventDefault();
    }
  });
}
