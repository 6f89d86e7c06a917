// Copies the libraries of the pages, and their licences, from node_modules into
// the folder that is embedded into the program.
//
//   node vendor.mjs
import { copyFile, mkdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const from = join(here, "node_modules");
const to = join(here, "..", "static", "vendor");
const files = {
  "htmx.min.js": "htmx.org/dist/htmx.min.js",
  "htmx.LICENSE": "htmx.org/LICENSE",
  "uPlot.esm.js": "uplot/dist/uPlot.esm.js",
  "uPlot.min.css": "uplot/dist/uPlot.min.css",
  "uPlot.LICENSE": "uplot/LICENSE",
};

// The folder is renamed into place when it is complete.
const building = `${to}.building`;
await rm(building, { recursive: true, force: true });
await mkdir(building, { recursive: true });
for (const [name, source] of Object.entries(files)) {
  await copyFile(join(from, source), join(building, name));
}
await rm(to, { recursive: true, force: true });
await rename(building, to);
