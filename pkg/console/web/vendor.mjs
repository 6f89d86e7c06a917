// Copies the libraries of the pages, and their licences, from node_modules into
// the folder that is embedded into the program. The editor is bundled, because browsers cannot resolve its imports.
//
//   node vendor.mjs
import { copyFile, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const from = join(here, "node_modules");
const to = join(here, "..", "static", "vendor");
const files = {
  "htmx.min.js": "htmx.org/dist/htmx.min.js",
  "htmx.LICENSE": "htmx.org/LICENSE",
};

// The folder is renamed into place when it is complete.
const building = `${to}.building`;
await rm(building, { recursive: true, force: true });
await mkdir(building, { recursive: true });
for (const [name, source] of Object.entries(files)) {
  await copyFile(join(from, source), join(building, name));
}
await bundle("codemirror", "editor.mjs");
await rm(to, { recursive: true, force: true });
await rename(building, to);

// bundle writes a script with all packages that it imports, and their licences in one file.
async function bundle(name, source) {
  const { metafile } = await build({
    entryPoints: [join(here, source)], outfile: join(building, `${name}.js`), bundle: true, minify: true, format: "esm", target: "es2022",
    legalComments: "none", metafile: true, absWorkingDir: here, logLevel: "warning",
  });
  const used = new Set(Object.keys(metafile.inputs).map((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]));
  const licences = [...used].filter(Boolean).sort().map(async (pkg) => `${pkg}\n\n${await readFile(join(from, pkg, "LICENSE"), "utf8")}`);
  await writeFile(join(building, `${name}.LICENSE`), (await Promise.all(licences)).join("\n----\n\n"));
}
