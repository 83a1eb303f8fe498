// Bundles the console into the Python package, or into the folder given as argument.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const here = new URL("./", import.meta.url);
const target = process.argv[2] ? pathToFileURL(`${resolve(process.argv[2])}/`) : new URL("../src/windlass/gateway/static/", here);

await mkdir(target, { recursive: true });
const { metafile } = await build({
  absWorkingDir: fileURLToPath(here),
  entryPoints: { console: "src/main.tsx" },
  outdir: fileURLToPath(target),
  bundle: true,
  metafile: true,
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
  const vendored = Object.keys(metafile.inputs).map((path) => /^node_modules\/((@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  const texts = [];
  for (const name of [...new Set(vendored)].filter(Boolean).sort()) {
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
  console.log(`${"total".padEnd(12)} ${String(whole).padStart(7)} bytes`);
}
