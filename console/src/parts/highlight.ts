// Code as tokens, for syntax highlighting. Pure.
import bash from "@speed-highlight/core/languages/bash.js";
import c from "@speed-highlight/core/languages/c.js";
import css from "@speed-highlight/core/languages/css.js";
import diff from "@speed-highlight/core/languages/diff.js";
import docker from "@speed-highlight/core/languages/docker.js";
import go from "@speed-highlight/core/languages/go.js";
import html from "@speed-highlight/core/languages/html.js";
import ini from "@speed-highlight/core/languages/ini.js";
import java from "@speed-highlight/core/languages/java.js";
import js from "@speed-highlight/core/languages/js.js";
import json from "@speed-highlight/core/languages/json.js";
import py from "@speed-highlight/core/languages/py.js";
import rs from "@speed-highlight/core/languages/rs.js";
import sql from "@speed-highlight/core/languages/sql.js";
import toml from "@speed-highlight/core/languages/toml.js";
import ts from "@speed-highlight/core/languages/ts.js";
import xml from "@speed-highlight/core/languages/xml.js";
import yaml from "@speed-highlight/core/languages/yaml.js";
import { tokenizeWith, type ShjLanguageData } from "@speed-highlight/core/tokenize";

const LANGUAGES = { bash, c, css, diff, docker, go, html, ini, java, js, json, py, rs, sql, toml, ts, xml, yaml } as unknown as Record<string, ShjLanguageData>;

/** Other names of the languages, and languages that look like one of them. */
const ALIASES: Record<string, string> = {
  "c++": "c", cpp: "c", h: "c", cs: "java", csharp: "java", kotlin: "java", swift: "java", php: "js",
  console: "bash", sh: "bash", shell: "bash", zsh: "bash", patch: "diff", dockerfile: "docker", golang: "go",
  javascript: "js", jsx: "js", mjs: "js", jsonc: "json", json5: "json", python: "py", python3: "py", rust: "rs",
  typescript: "ts", tsx: "ts", svg: "xml", yml: "yaml", htm: "html", vue: "html",
};

/** Longer code is shown without colours: it would take too long while it streams. */
const MAX_LENGTH = 50_000;

export interface CodeToken {
  text: string;
  /** "kwd", "str", "cmnt" and so on; "" for plain text. */
  type: string;
}

/** The code as tokens; one plain token if the language is unknown or the code is long. */
export function highlighted(code: string, language: string): CodeToken[] {
  const name = language.toLowerCase();
  const grammar = LANGUAGES[Object.hasOwn(ALIASES, name) ? (ALIASES[name] ?? "") : name];
  const tokens: CodeToken[] = [];
  if (!Object.hasOwn(LANGUAGES, ALIASES[name] ?? name) || !grammar || code.length > MAX_LENGTH) return [{ text: code, type: "" }];
  tokenizeWith(
    code,
    grammar,
    (text, type = undefined) => {
      if (text) tokens.push({ text, type: type ?? "" });
    },
    { languages: LANGUAGES },
  );
  return tokens;
}
