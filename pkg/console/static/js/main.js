// Starts the scripts that a page names. Pages also work without any script.
import { start as keys } from "./keys.js";
import { watch } from "./live.js";

watch(document);
keys(document);
for (const name of (document.body.dataset.modules ?? "").split(" ")) {
  if (/^[a-z-]+$/.test(name)) import(`./${name}.js`).then((module) => module.start?.(document));
}
