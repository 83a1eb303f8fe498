// Runs the tests in the files that are named, bundled as the page is: `node test/run.mjs fold.test.ts`.
// What follows a `--` is for the tests themselves.
import { build } from "esbuild";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const said = process.argv.slice(2);
const files = said.includes("--") ? said.slice(0, said.indexOf("--")) : said;

const folder = await mkdtemp(join(tmpdir(), "console-"));
after(() => rm(folder, { recursive: true }));
const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: files,
  outdir: folder,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  metafile: true,
  format: "esm",
  platform: "node",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".css": "empty" },
});
for (const made of Object.keys(metafile.outputs)) await import(pathToFileURL(join(here, made)).href);
