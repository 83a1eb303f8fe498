// Bundles the console into the Python package: what users get needs no build.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const target = new URL("../src/windlass/gateway/static/", import.meta.url);
const here = new URL("./", import.meta.url);
const vendored = ["preact", "@preact/signals", "@preact/signals-core", "marked"];

await mkdir(target, { recursive: true });
await build({
  absWorkingDir: new URL(".", here).pathname,
  entryPoints: { console: "src/main.tsx" },
  outdir: target.pathname,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
});
for (const name of ["index.html", "favicon.svg"]) {
  await copyFile(new URL(`src/${name}`, here), new URL(name, target));
}
await writeFile(new URL("LICENSES.txt", target), await licences());
await report();

async function licences() {
  const texts = [];
  for (const name of vendored) {
    const folder = new URL(`node_modules/${name}/`, here);
    const { version, license } = JSON.parse(await readFile(new URL("package.json", folder), "utf8"));
    const text = await firstOf(folder, ["LICENSE", "LICENSE.md", "license"]);
    texts.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
  }
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}

async function firstOf(folder, names) {
  for (const name of names) {
    try {
      return await readFile(new URL(name, folder), "utf8");
    } catch {
      continue;
    }
  }
  throw new Error(`no licence in ${folder}`);
}

async function report() {
  let whole = 0;
  for (const name of ["index.html", "console.js", "console.css", "favicon.svg"]) {
    const { size } = await stat(new URL(name, target));
    const packed = gzipSync(await readFile(new URL(name, target))).length;
    console.log(`${name.padEnd(12)} ${String(size).padStart(7)} bytes, ${packed} packed`);
    whole += size;
  }
  console.log(`${"in all".padEnd(12)} ${String(whole).padStart(7)} bytes`);
}
