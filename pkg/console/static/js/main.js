// Starts the scripts that a page names. Pages also work without any script.
import { start as busy } from "./busy.js";
import { keep } from "./drafts.js";
import { start as keys } from "./keys.js";
import { watch } from "./live.js";
import { start as menus } from "./menus.js";
import { start as times } from "./times.js";
import { start as whole } from "./whole.js";

busy(document);
keep(document);
watch(document);
keys(document);
menus(document);
times(document);
whole(document);
const here = document.querySelector(".bar [aria-current]");
if (here) { // a narrow header shows the middle of its pages at the current one
  const pages = here.closest("nav");
  pages.scrollLeft = here.offsetLeft + here.offsetWidth / 2 - pages.offsetLeft - pages.clientWidth / 2;
}
for (const name of (document.body.dataset.modules ?? "").split(" ")) {
  if (/^[a-z-]+$/.test(name)) import(`./${name}.js`).then((module) => module.start?.(document));
}
