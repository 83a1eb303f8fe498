// Rendered Markdown back to Markdown.

const BLOCK = "p, h1, h2, h3, h4, h5, h6, ul, ol, table, blockquote, pre, hr";
const BLOCKS = new Set(BLOCK.split(", "));
const HEADINGS = { h1: "#", h2: "##", h3: "###", h4: "####", h5: "#####", h6: "######" };
const MARKS = { strong: "**", b: "**", em: "*", i: "*", del: "~~", s: "~~", strike: "~~" };
const NOT_SAID = 'button, [role="button"], [role="toolbar"], [role="menu"], [role="tooltip"], svg, script, style, template, input, select, textarea';
const MATH = "ms-katex, .katex, math";
/** Marks the end of the last words: what follows is only the ends of marks, which may still move. */
const END = "\uE000";

/** Words that only a screen reader says, such as "Model response". */
const isForReaders = (node) => /visually-hidden|visuallyhidden|sr-only|screen-reader/i.test(node.getAttribute("class") ?? "");

const isSilent = (node) =>
  node.nodeType !== 1 || isIcon(node) || node.matches(NOT_SAID) || node.hidden || isForReaders(node) ||
  (node.getAttribute("aria-hidden") === "true" && !node.closest(MATH));

const lastWords = (node) => {
  if (node.nodeType === 3) return node.data.trim() ? node : null;
  if (isSilent(node)) return null;
  for (const child of childrenOf(node).reverse()) {
    const found = lastWords(child);
    if (found) return found;
  }
  return null;
};

/** The Markdown of the node, and how many characters at its end are only the ends of marks. */
const markdownOf = (node) => {
  const marked = blocksIn(node, { last: lastWords(node) }).join("\n\n");
  const at = marked.indexOf(END);
  if (at < 0) return { text: marked, tail: marked.length };
  return { text: marked.slice(0, at) + marked.slice(at + 1), tail: marked.length - at - 1 };
};

const hasBlocks = (node) => rootsIn(node).some((root) => root.querySelector(BLOCK) !== null);

/** The Markdown blocks of what is in the node. Words between blocks are paragraphs. */
const blocksIn = (node, state) => {
  const blocks = [];
  let run = "";
  const flush = () => {
    if (run.replace(END, "").trim()) blocks.push(trimmed(run));
    run = "";
  };
  for (const child of childrenOf(node)) {
    if (child.nodeType === 3) {
      run += wordsOf(child, state);
    } else if (!isSilent(child)) {
      const isBlock = BLOCKS.has(child.localName) || hasBlocks(child) || isDisplayMath(child);
      if (isBlock || /^(div|section|article)$/.test(child.localName)) {
        flush();
        blocks.push(...blockOf(child, state));
      } else {
        run += inline(child, state);
      }
    }
  }
  flush();
  return blocks;
};

const trimmed = (text) => text.replace(/^\s+/, "").replace(/\s+$/, "");

const blockOf = (node, state) => {
  const tag = node.localName;
  if (tag === "pre" || codeIn(node)) return [fence(node, state)];
  if (HEADINGS[tag]) return [`${HEADINGS[tag]} ${trimmed(inlineIn(node, state)).replace(/\s*\n\s*/g, " ")}`];
  if (tag === "hr") return ["---"];
  if (tag === "blockquote") return [prefixed(blocksIn(node, state).join("\n\n"), "> ", "> ")];
  if (tag === "ul" || tag === "ol") return [list(node, state)];
  if (tag === "table") return [grid(node, state)];
  if (isDisplayMath(node)) return [`$$${texIn(node)}$$`];
  return blocksIn(node, state);
};

const prefixed = (text, first, rest) =>
  text.split("\n").map((line, number) => {
    const mark = number ? rest : first;
    return line === "" || line === END ? mark.trimEnd() + line : mark + line;
  }).join("\n");

const list = (node, state) => {
  let number = Number(node.getAttribute("start") ?? 1);
  const items = [];
  let isLoose = false;
  for (const item of childrenOf(node).flatMap(itemsIn)) {
    const mark = node.localName === "ol" ? `${number++}. ` : "- ";
    const box = allBy('input[type="checkbox"]', item)[0];
    const done = box && !box.closest("li li") ? (box.checked ? "[x] " : "[ ] ") : "";
    const blocks = blocksIn(item, state);
    // Only a second paragraph needs an empty line before it.
    const text = blocks.reduce((whole, block) => {
      const follows = /^\s*([-*+]|\d+[.)])\s/.test(block) || whole === "";
      isLoose ||= !follows;
      return whole + (whole === "" ? "" : follows ? "\n" : "\n\n") + block;
    }, "");
    items.push(prefixed(done + text, mark, " ".repeat(mark.length)));
  }
  return items.join(isLoose ? "\n\n" : "\n");
};

const itemsIn = (node) => {
  if (node.nodeType !== 1 || isSilent(node)) return [];
  return node.localName === "li" ? [node] : childrenOf(node).flatMap(itemsIn);
};

const grid = (node, state) => {
  const cells = (row) => allBy("th, td", row).filter((cell) => cell.closest("tr") === row);
  const written = (row) => `| ${cells(row).map((cell) => trimmed(inlineIn(cell, state)).replace(/\s*\n\s*/g, " ").replaceAll("|", "\\|")).join(" | ")} |`;
  const [head, ...rest] = allBy("tr", node);
  if (!head) return "";
  const rule = cells(head).map((cell) => {
    const align = cell.getAttribute("align") || cell.style.textAlign;
    return { left: ":---", center: ":---:", right: "---:" }[align] ?? "---";
  });
  return [written(head), `| ${rule.join(" | ")} |`, ...rest.map(written)].join("\n");
};

// Code: a `pre`, in a frame with a title and buttons, which are not part of it.

const codeIn = (node) => {
  const pres = node.localName === "pre" ? [node] : allBy("pre", node);
  if (pres.length !== 1) return null;
  if (node === pres[0] || isA("code_block", node)) return pres[0];
  if (BLOCKS.has(node.localName) || /^(li|td|th|dd)$/.test(node.localName)) return null;
  if (allBy("input, textarea, form", node).length || iconsIn(node).includes("function")) return null;
  const isFramed = (each) => contains(each, pres[0]) && (allBy("button, [role=button]", each).length > 0 || hasTitle(each, pres[0]));
  if (!isFramed(node) || childrenOf(node).some((child) => child.nodeType === 1 && child !== pres[0] && isFramed(child))) return null;
  return allBy(BLOCK, node).every((block) => contains(pres[0], block)) ? pres[0] : null;
};

/** Whether the node begins with an element of a few words before the code: a title or "Copy". */
const hasTitle = (node, pre) => {
  const [first] = childrenOf(node).filter((child) => child.nodeType === 1);
  if (!first || contains(first, pre) || BLOCKS.has(first.localName) || /^(span|a|b|em|strong)$/.test(first.localName)) return false;
  return /^[^.:!?\n]{1,40}$/.test(tidy(plainText(first)));
};

const fence = (node, state) => {
  const pre = codeIn(node) ?? node;
  const code = allBy("code", pre)[0] ?? pre;
  let text = code.textContent;
  if (state.last && contains(pre, parentOf(state.last))) text = text.replace(/\n?$/, "") + END;
  text = text.replace(/\n(\uE000?)$/, "$1");
  const ticks = "`".repeat(Math.max(3, ...(text.match(/`+/g) ?? []).map((run) => run.length + 1)));
  return `${ticks}${language(node, pre, code)}\n${text}\n${ticks}`;
};

const language = (frame, pre, code) => {
  const named = [...code.classList, ...pre.classList].map((name) => /^(?:language|lang)-(.+)$/.exec(name)?.[1]);
  const known = named.find(Boolean) ?? code.dataset.language ?? pre.dataset.language;
  if (known) return known;
  if (frame === pre) return "";
  const words = [];
  const walk = (node) => {
    if (node === pre || (node.nodeType === 1 && isSilent(node))) return;
    if (node.nodeType === 3 && node.data.trim()) words.push(node.data.trim());
    else childrenOf(node).forEach(walk);
  };
  walk(frame);
  const title = words[0]?.toLowerCase() ?? "";
  return /^[a-z0-9+#._-]{1,20}$/.test(title) && !["text", "code", "plaintext"].includes(title) ? title : "";
};

// Words.

const isPreformatted = (node, state) => {
  state.spaces ??= new WeakMap();
  const parent = parentOf(node);
  if (!state.spaces.has(parent)) state.spaces.set(parent, /pre|break-spaces/.test(getComputedStyle(parent).whiteSpace));
  return state.spaces.get(parent);
};

const wordsOf = (node, state) => {
  let text = node.data;
  // A line break in the page's text is one of the model's, whatever the browser makes of it.
  if (!isPreformatted(node, state)) text = text.replace(/[ \t]*\n\s*/g, "\n").replace(/[ \t]+/g, " ");
  return node === state.last ? text + END : text;
};

const inlineIn = (node, state) => childrenOf(node).map((child) => inline(child, state)).join("");

const inline = (node, state) => {
  if (node.nodeType === 3) return wordsOf(node, state);
  if (node.nodeType !== 1) return "";
  const tag = node.localName;
  if (node.matches(MATH)) {
    const end = state.last && contains(node, parentOf(state.last)) ? END : "";
    return isDisplayMath(node) ? `$$${texIn(node)}$$${end}` : `$${texIn(node)}$${end}`;
  }
  if (isSilent(node)) return "";
  if (tag === "br") return "  \n";
  if (tag === "img") return `![${node.alt}](${node.getAttribute("src")})`;
  if (tag === "pre") return fence(node, state);
  const inner = inlineIn(node, state);
  if (tag === "code" || node.classList.contains("inline-code")) return codeSpan(inner);
  if (tag === "a" && node.getAttribute("href")) {
    const href = node.getAttribute("href");
    return inner.replace(END, "") === href ? inner : `[${inner}](${href})`;
  }
  return MARKS[tag] ? marked(inner, MARKS[tag]) : inner;
};

/** The mark around the words, and the spaces outside, where Markdown wants them. */
const marked = (text, mark) => {
  if (!text.replace(END, "").trim()) return text;
  const [, before, words, after] = /^(\s*)([^]*?)(\s*)$/.exec(text);
  return before + mark + words + mark + after;
};

const codeSpan = (text) => {
  const plain = text.replace(END, "");
  const ticks = "`".repeat(Math.max(0, ...(plain.match(/`+/g) ?? []).map((run) => run.length)) + 1);
  const pad = /^`|`$/.test(plain) ? " " : "";
  return ticks + pad + text + pad + ticks;
};

const isDisplayMath = (node) =>
  node.nodeType === 1 && node.matches(MATH) &&
  (node.matches('.katex-display, [display="block"], .display') || allBy('.katex-display, math[display="block"]', node).length > 0);

const texIn = (node) =>
  tidy(allBy('annotation[encoding="application/x-tex"]', node)[0]?.textContent ?? node.textContent);
