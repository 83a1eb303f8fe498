// Finds the elements of the table. Every way that points to an element adds to its score.
//
// `table` is `ELEMENTS` of selectors.py. Open shadow roots count as part of the page.

const WEIGHT = { first: 4, selector: 3, name: 4, partOfName: 2, near: 3, icon: 2, role: 1, seed: 1 };
const ENOUGH = 2;

const ROLES = {
  button: 'button, [role="button"], a[href], input[type="submit"], input[type="button"]',
  menuitem: '[role="menuitem"], [role="option"], button',
  switch: '[role="switch"], [role="checkbox"], input[type="checkbox"], [aria-pressed]',
  textbox: 'textarea, [role="textbox"], [contenteditable="true"], [contenteditable=""], input[type="text"]',
  spinbutton: 'input[type="number"], [role="spinbutton"]',
  tab: '[role="tab"]',
  dialog: '[role="dialog"], [role="alertdialog"], dialog[open], [aria-modal="true"]',
};

const ICON = [
  '.material-symbols-outlined, .material-icons, mat-icon, [class*="material-symbols"]',
  '[data-mat-icon-name]',
].join(", ");

// Trees.

const parentOf = (node) => node.parentElement ?? node.getRootNode().host ?? null;

let isShadowless = false;

/** Runs the function while the page does not change: it is searched for shadow roots only once. */
const still = (read) => {
  if (isShadowless) return read();
  isShadowless = rootsIn(document).length === 1;
  try {
    return read();
  } finally {
    isShadowless = false;
  }
};

/** The tree and all open shadow roots in it. */
const rootsIn = (root) => {
  const found = [root];
  if (isShadowless) return found;
  if (root.shadowRoot) found.push(root.shadowRoot);
  for (const each of found) {
    for (const element of each.querySelectorAll("*")) {
      if (element.shadowRoot) found.push(element.shadowRoot);
    }
  }
  return found;
};

const contains = (outer, inner) => {
  for (let node = inner; node; node = parentOf(node)) if (node === outer) return true;
  return false;
};

const childrenOf = (node) => {
  if (node.shadowRoot) return [...node.shadowRoot.childNodes];
  if (node.localName === "slot" && node.assignedNodes().length) return node.assignedNodes();
  return [...node.childNodes];
};

// Selectors: CSS that also crosses shadow roots, and `:has-text("words")`.

const splitOutside = (text, separators) => {
  const pieces = [""];
  let depth = 0, quote = "";
  for (const char of text) {
    if (quote) quote = char === quote ? "" : quote;
    else if (char === '"' || char === "'") quote = char;
    else if (char === "(" || char === "[") depth += 1;
    else if (char === ")" || char === "]") depth -= 1;
    if (!quote && !depth && separators.includes(char) && char !== ")" && char !== "]") {
      pieces.push(char, "");
    } else {
      pieces[pieces.length - 1] += char;
    }
  }
  return pieces;
};

const parsed = new Map();

/** Alternatives, each a list of steps from the innermost outwards. */
const parse = (selector) => {
  if (!parsed.has(selector)) {
    const alternatives = splitOutside(selector, ",").filter((piece) => piece !== ",");
    parsed.set(selector, alternatives.map((text) => stepsOf(text.trim())));
  }
  return parsed.get(selector);
};

const stepsOf = (text) => {
  const steps = [];
  let isChild = false;
  for (const piece of splitOutside(text, " >")) {
    if (piece === ">") isChild = true;
    if (piece.trim() === "" || piece === ">") continue;
    const words = [...piece.matchAll(/:has-text\("([^"]*)"\)/g)].map((match) => match[1]);
    const css = piece.replace(/:has-text\("[^"]*"\)/g, "") || "*";
    steps.push({ css, words, isChild });
    isChild = false;
  }
  return steps.reverse();
};

const fitsStep = (node, { css, words }) =>
  node.matches(css) && words.every((word) => plainText(node).toLowerCase().includes(word.toLowerCase()));

const fitsSteps = (node, steps, at = 0) => {
  if (!fitsStep(node, steps[at])) return false;
  if (at + 1 === steps.length) return true;
  for (let outer = parentOf(node); outer; outer = parentOf(outer)) {
    if (fitsSteps(outer, steps, at + 1)) return true;
    if (steps[at].isChild) return false;
  }
  return false;
};

const fits = (node, selector) => parse(selector).some((steps) => fitsSteps(node, steps));

const allBy = (selector, root, roots = rootsIn(root)) => {
  const found = new Set();
  for (const steps of parse(selector)) {
    for (const each of roots) {
      for (const node of each.querySelectorAll(steps[0].css)) {
        if (fitsSteps(node, steps)) found.add(node);
      }
    }
  }
  return [...found];
};

// Names.

const isIcon = (node) =>
  node.nodeType === 1 &&
  (node.matches(ICON) ||
    (node.getAttribute("aria-hidden") === "true" && /^[a-z][a-z0-9_]*$/.test(node.textContent.trim())));

const plainText = (node) => {
  if (node.nodeType === 3) return node.data;
  if (node.nodeType !== 1 || isIcon(node) || /^(script|style|template)$/.test(node.localName)) return "";
  return childrenOf(node).map(plainText).join(" ");
};

const tidy = (text) => (text ?? "").replace(/\s+/g, " ").trim();
const bare = (text) => tidy(text).toLowerCase().replace(/[.…:*]+$/, "");

const iconsIn = (node) => {
  const named = ["iconname", "fonticon", "svgicon", "data-mat-icon-name", "icon", "data-icon"];
  const inside = [node, ...rootsIn(node).flatMap((root) => [...root.querySelectorAll("*")])];
  return inside.flatMap((each) => [
    ...named.map((name) => each.getAttribute(name)).filter(Boolean),
    ...(isIcon(each) ? [each.textContent.trim()] : []),
  ]);
};

/** The part of the page that belongs to one switch: its label and its buttons. */
const rowOf = (node) => {
  let row = node;
  for (let outer = parentOf(node), level = 0; outer && level < 5; outer = parentOf(outer), level += 1) {
    const others = allBy(ROLES.switch, outer).filter((each) => !contains(each, node) && !contains(node, each));
    if (others.length || outer.localName === "body" || allBy("textarea", outer).length) break;
    row = outer;
  }
  return row;
};

const namesOf = (node, role) => {
  const root = node.getRootNode();
  const labelled = (node.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean);
  const attributes = ["aria-label", "title", "placeholder", "aria-placeholder", "mattooltip", "data-tooltip"];
  const names = [
    ...attributes.map((name) => node.getAttribute(name)),
    ...labelled.map((id) => root.getElementById?.(id)?.textContent),
    ...[...(node.labels ?? [])].map(plainText),
  ];
  if (role === "dialog") names.push(...allBy('h1, h2, h3, [role="heading"]', node).map(plainText));
  else if (role === "switch") names.push(plainText(node) || plainText(rowOf(node)));
  else if (role !== "textbox") names.push(plainText(node));
  return names.map(tidy).filter(Boolean);
};

/** How well one of the names is one of the phrases: 2 is equal, 1 contains it, 0 is neither. */
const likeness = (names, phrases) => {
  let best = 0;
  for (const name of names.map(bare)) {
    for (const phrase of phrases.map(bare)) {
      if (name === phrase) return 2;
      const long = phrase.length > 3 || /[^\u0000-\u024f]/.test(phrase);
      if (long && name.length < 120 && name.includes(phrase)) best = 1;
    }
  }
  return best;
};

// Elements.

const isVisible = (node) => node.checkVisibility({ visibilityProperty: true });

const inTurn = (node) => {
  for (let outer = parentOf(node); outer; outer = parentOf(outer)) {
    if (table.turn.selectors.some((selector) => fits(outer, selector))) return true;
  }
  return false;
};

/** The ways by which the node may be this element: pairs of points and words. */
const evidence = (row, node, near) => {
  const ways = [];
  const place = row.selectors.findIndex((selector) => fits(node, selector));
  if (place >= 0) ways.push([place ? WEIGHT.selector : WEIGHT.first, row.selectors[place]]);
  const seed = row.seed.find((selector) => fits(node, selector));
  if (seed && place < 0) ways.push([WEIGHT.seed, seed]);
  if (row.role && node.matches(ROLES[row.role])) {
    const alike = likeness(namesOf(node, row.role), row.names);
    if (alike) ways.push([alike === 2 ? WEIGHT.name : WEIGHT.partOfName, `name ${quoted(namesOf(node, row.role)[0])}`]);
    const icon = iconsIn(node).find((each) => row.icons.includes(each));
    if (icon) ways.push([WEIGHT.icon, `icon ${icon}`]);
    if (near && contains(near, node)) ways.push([WEIGHT.near, `beside ${row.near}`]);
    const isEnough = !row.names.length && !row.icons.length;
    if (ways.length || isEnough) ways.push([isEnough ? ENOUGH : WEIGHT.role, `role ${row.role}`]);
  }
  return ways;
};

const quoted = (text) => `"${text.length > 40 ? text.slice(0, 40) + "…" : text}"`;

const candidates = (name) => {
  const row = table[name];
  const outer = row.within ? find(row.within)?.node : document;
  if (!outer) return [];
  const roots = rootsIn(outer);
  const beside = row.near ? find(row.near)?.node : null;
  const near = beside ? rowOf(beside) : null;
  const pool = new Set([...row.selectors, ...row.seed].flatMap((selector) => allBy(selector, outer, roots)));
  if (row.role) for (const node of allBy(ROLES[row.role], outer, roots)) pool.add(node);
  const found = [];
  for (const node of pool) {
    if (node === beside || (row.contains && !allBy(row.contains, node).length)) continue;
    if (row.shown !== "chat" && inTurn(node)) continue;
    const ways = evidence(row, node, near);
    const score = ways.reduce((sum, [points]) => sum + points, 0);
    if (score >= ENOUGH) found.push({ node, score, ways: ways.map(([, words]) => words), isFirst: ways.some(([points, words]) => points === WEIGHT.first && words === row.selectors[0]) });
  }
  const seen = found.filter(({ node }) => isVisible(node));
  return (seen.length || !row.hidden ? seen : found).sort((a, b) => b.score - a.score);
};

/** The best candidate; null if there is none, or if two different ones are equally good. */
const find = (name) =>
  still(() => {
    const [best, ...others] = candidates(name);
    if (!best || rivalsOf(best, others, name).length) return null;
    // A component and the element in it are one thing.
    const isFirst = [best, ...others].some((each) => each.isFirst && (contains(best.node, each.node) || contains(each.node, best.node)));
    return { ...best, isFirst };
  });

const rivalsOf = (best, others, name) => {
  const role = table[name].role;
  const label = (each) => namesOf(each.node, role).join("|");
  return others.filter(
    (other) =>
      other.score === best.score &&
      !contains(best.node, other.node) && !contains(other.node, best.node) &&
      label(other) !== label(best),
  );
};

/** Why `find` finds nothing, in words. */
const whyNot = (name) => {
  const row = table[name];
  if (row.within && !find(row.within)) return `${quoted(row.within)} is not there`;
  const [best, ...others] = candidates(name);
  if (!best) return "no selector, name or icon matches";
  return `${1 + rivalsOf(best, others, name).length} elements match equally well (${best.ways.join("; ")})`;
};

const describe = (node) => {
  if (!node) return "nothing";
  const tag = node.localName + (node.id ? `#${node.id}` : "");
  const classes = [...(node.classList ?? [])].slice(0, 2).map((name) => `.${name}`).join("");
  return `<${tag}${classes}>`;
};

/** The matches of the first selector that has any, without those inside another match. */
const all = (name, root) => {
  const roots = rootsIn(root);
  for (const selector of [...table[name].selectors, ...table[name].seed]) {
    const found = allBy(selector, root, roots);
    if (found.length) return found.filter((node) => !found.some((other) => other !== node && contains(other, node)));
  }
  return [];
};
const one = (name, root) => all(name, root)[0] ?? null;
const isA = (name, node) => [...table[name].selectors, ...table[name].seed].some((selector) => fits(node, selector));

/** Resolves with whether the element is there (or gone), as soon as it is or the time is over. */
const until = (name, wanted, milliseconds) =>
  new Promise((resolve) => {
    const isSo = () => (find(name) !== null) === wanted;
    if (isSo()) return resolve(true);
    const end = (answer) => {
      observer.disconnect();
      clearInterval(timer);
      resolve(answer);
    };
    const started = performance.now();
    const look = () => isSo() ? end(true) : milliseconds && performance.now() - started > milliseconds && end(false);
    // Frames bundle changes; the timer sees what happens in shadow roots, and works without frames.
    let pending = false;
    const observer = new MutationObserver(() => {
      if (pending) return;
      pending = true;
      setTimeout(() => { pending = false; look(); }, 20);
    });
    const timer = setInterval(look, 100);
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  });

/** What is in front of the element, in the middle of it; null if nothing is. */
const coverOf = (node) => {
  if (!node.isConnected) return null;
  node.scrollIntoView({ block: "nearest" });
  const box = node.getBoundingClientRect();
  if (!box.width || !box.height) return null;
  let hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  while (hit?.shadowRoot) {
    const inner = hit.shadowRoot.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    if (!inner || inner === hit) break;
    hit = inner;
  }
  return !hit || contains(node, hit) || contains(hit, node) ? null : hit;
};

/** The dialog or banner that this node is a part of. */
const frontOf = (node) => {
  const dialogs = allBy(ROLES.dialog, document).filter(isVisible);
  const own = dialogs.find((dialog) => contains(dialog, node));
  if (own) return own;
  if (dialogs.length && isA("overlay", node)) return dialogs.at(-1);
  let front = node;
  for (let outer = parentOf(node); outer && outer !== document.body; outer = parentOf(outer)) {
    if (["fixed", "sticky", "absolute"].includes(getComputedStyle(outer).position)) front = outer;
  }
  return front;
};

/** A button that closes this dialog or banner without any other effect. */
const closerIn = (front) => {
  const row = table.close_button;
  const scored = allBy(ROLES.button, front)
    .filter((node) => isVisible(node))
    .map((node) => [node, 2 * likeness(namesOf(node, "button"), row.names) + (iconsIn(node).some((icon) => row.icons.includes(icon)) ? 2 : 0)])
    .filter(([, score]) => score > 0)
    .sort((a, b) => b[1] - a[1]);
  return scored[0]?.[0] ?? null;
};

/** The state of a switch: true, false, or null if it shows none. */
const stateOf = (node) => {
  const said = node.getAttribute("aria-checked") ?? node.getAttribute("aria-pressed");
  if (said !== null) return said === "true";
  return typeof node.checked === "boolean" ? node.checked : null;
};
