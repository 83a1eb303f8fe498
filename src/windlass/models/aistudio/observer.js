([selectors, number]) => {
  window.windlassWatch?.disconnect();

  // The matches of the first selector that has any, without those inside another match.
  const all = (name, root) => {
    for (const selector of selectors[name]) {
      const found = [...root.querySelectorAll(selector)];
      const isOutermost = (node) => !found.some((other) => other !== node && other.contains(node));
      if (found.length) return found.filter(isOutermost);
    }
    return [];
  };
  const one = (name, root) => all(name, root)[0] ?? null;
  const matches = (name, node) => selectors[name].some((selector) => node.matches(selector));
  const isUser = (turn) => matches("user_turn", turn) || one("user_turn", turn) !== null;

  const blocks = "p, pre, ul, ol, table, blockquote, h1, h2, h3, h4, h5, h6";
  const words = (node) => node.querySelector(blocks) ? node.innerText : node.textContent;

  // What was there before: whole turns, and the chunks of the last one, which may grow.
  const turnsBefore = all("turn", document);
  const old = new Set(turnsBefore);
  const last = turnsBefore.at(-1);
  const chunksBefore = last ? all("chunk", last).length : 0;
  const problems = () => ["toast", "callout", "model_error"].flatMap((name) => all(name, document));
  const oldProblems = new Set(problems());

  const newChunks = () => {
    const chunks = [];
    for (const turn of all("turn", document)) {
      if (isUser(turn)) continue;
      if (!old.has(turn)) chunks.push(...all("chunk", turn));
      else if (turn === last) chunks.push(...all("chunk", turn).slice(chunksBefore));
    }
    return chunks;
  };

  const read = () => {
    const seen = { text: "", thought: "", calls: [], begun: false };
    for (const chunk of newChunks()) {
      seen.begun = true;
      const call = all("call", chunk);
      const thought = all("thought", chunk);
      if (call.length) {
        for (const widget of call) {
          const name = one("call_name", widget)?.textContent.trim() ?? "";
          seen.calls.push([name, one("call_arguments", widget)?.textContent ?? ""]);
        }
      } else if (thought.length) {
        seen.thought += thought.map((node) => node.textContent).join("");
      } else {
        const text = all("text", chunk).map(words).join("");
        seen.text += seen.text && text ? "\n\n" + text : text;
      }
    }
    return seen;
  };

  // An icon is the name of its glyph: not part of what is said.
  const said = (node) => {
    const copy = node.cloneNode(true);
    for (const icon of all("icon", copy)) icon.remove();
    return copy.textContent.trim();
  };

  // A new problem, or one that has stood there since before: then it may be this turn's, or not.
  const problem = (isOld) => {
    const found = problems().find((node) => oldProblems.has(node) === isOld);
    return found ? said(found) || "The page shows an error without words." : "";
  };

  const told = { text: "", thought: "" };
  const grown = (name, text) => {
    const before = told[name];
    if (text === before) return null;
    let at = 0;
    if (text.startsWith(before)) at = before.length;
    else while (at < before.length && text[at] === before[at]) at += 1;
    // Not in the middle of a character of two units.
    if (at && /[\uD800-\uDBFF]/.test(text[at - 1])) at -= 1;
    told[name] = text;
    return [at, text.slice(at)];
  };

  // A count that stood there before is not this turn's.
  let counted = false;
  const tokens = (records) => {
    const node = one("token_count", document);
    if (!node) return "";
    counted ||= records.some((record) => node.contains(record.target));
    return counted ? [node.textContent.trim(), node.title].join(" ").trim() : "";
  };

  let sent = "";
  const report = (records) => {
    const seen = read();
    const rest = {
      busy: one("generating", document) !== null,
      begun: seen.begun,
      calls: seen.calls,
      problem: problem(false),
      standing: problem(true),
      tokens: tokens(records),
    };
    const text = grown("text", seen.text), thought = grown("thought", seen.thought);
    const same = JSON.stringify(rest);
    if (!text && !thought && same === sent) return;
    sent = same;
    window.windlassReport(JSON.stringify([number, { ...rest, text, thought }]));
  };

  const watch = new MutationObserver(report);
  watch.observe(document.body, {
    subtree: true, childList: true, characterData: true, attributes: true,
    attributeFilter: ["type", "disabled", "aria-disabled", "aria-label", "class", "title"],
  });
  window.windlassWatch = watch;
  report([]);
}
