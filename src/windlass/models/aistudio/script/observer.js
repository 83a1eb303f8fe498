// Watches a turn and reports each change of it.

let watching = null;

const unwatch = () => {
  watching?.observer.disconnect();
  clearInterval(watching?.timer);
  watching = null;
};

const signOfButton = (node) =>
  [node.getAttribute("type"), node.getAttribute("aria-label"), node.title, tidy(plainText(node)), iconsIn(node).join(), node.getAttribute("aria-busy")].join("|");

/** Remembers how the run button looks while the page is idle. */
const noteIdle = () => {
  if (!watching) return;
  watching.button = find("run_button")?.node ?? watching.button;
  if (watching.button) watching.idle.add(signOfButton(watching.button));
};

/** Whether the page is generating, or has begun to since `watch`. */
const hasStarted = () =>
  still(() => watching !== null && (watching.wasBusy || isBusy() || all("turn", document).length > watching.turns));

const isBusy = () => {
  if (all("generating", document).some(isVisible)) return true;
  if (!watching) return find("stop_button") !== null;
  if (!watching.button?.isConnected) watching.button = find("run_button")?.node ?? null;
  return !watching.button || !watching.idle.has(signOfButton(watching.button));
};

// An icon is the name of its glyph: not part of what is said.
const said = (node) => tidy(plainText(node));

/** Starts to watch. `given` are the texts to be sent: a prompt, or results of the functions. */
const watch = ({ number, given, known, isPrompt }) => {
  unwatch();
  const before = still(() => turnsNow(known).map(({ key, role, parts, sign }) => ({ key, role, parts, sign })));
  const problems = () => ["toast", "callout", "model_error"].flatMap((name) => all(name, document));
  const notices = () => allBy('[role="alert"], [role="status"], ms-callout', document).filter(isVisible);
  const oldProblems = new Set(problems());
  const oldNotices = new Set(notices().map(said));
  const sent = given.map(letters);
  // A page may shorten a long prompt, and renders its Markdown.
  const isGiven = (turn) => {
    const shown = letters(turn.parts.map((part) => part.text ?? "").join(""));
    return sent.some((text) => shown === text || (shown.length > 40 && text.startsWith(shown)) || (text.length > 40 && shown.startsWith(text)));
  };
  let isShown = false;

  const read = () => {
    const seen = { text: "", tail: 0, thought: "", calls: [], begun: false, unread: "", unsure: "" };
    const now = turnsNow(known);
    const count = oldTurns(before, now, isGiven);
    if (count === null) {
      seen.unsure = `${now.length} turns have neither an id nor a text of before`;
      return seen;
    }
    const grown = count ? now[count - 1].parts.slice(before.at(-1).parts.length) : [];
    const fresh = now.slice(count);
    const asked = fresh.findLastIndex((turn) => turn.role === "user" || (!turn.role && isGiven(turn)));
    isShown ||= asked >= 0;
    const answers = fresh.slice(asked + 1);
    if (answers.some((turn) => !turn.role) && !isShown && isPrompt) {
      seen.unsure = "a new turn shows neither its role nor the prompt";
      return seen;
    }
    const parts = [...grown, ...answers.flatMap((turn) => turn.parts)];
    for (const part of parts) {
      seen.begun = true;
      if (part.kind === "call") seen.calls.push(part.call);
      else if (part.kind === "thought") seen.thought += part.text;
      else if (part.text) {
        seen.text += (seen.text ? "\n\n" : "") + part.text;
        seen.tail = part.tail;
      }
    }
    const unread = answers.flatMap((turn) => turn.rest);
    if (unread.length) seen.unread = `${describe(parentOf(unread[0]))} with the text ${quoted(tidy(unread[0].data))}`;
    return seen;
  };

  // A new problem, or one that has stood there since before: then it may be this turn's, or not.
  const problem = (isOld) => {
    const found = problems().find((node) => oldProblems.has(node) === isOld);
    return found ? said(found) || "The page shows an error without words." : "";
  };

  const told = { text: "", thought: "" };
  const grown = (name, text) => {
    const old = told[name];
    if (text === old) return null;
    let at = 0;
    if (text.startsWith(old)) at = old.length;
    else while (at < old.length && text[at] === old[at]) at += 1;
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
    counted ||= records.some((record) => contains(node, record.target.nodeType === 1 ? record.target : parentOf(record.target) ?? node));
    return counted ? [node.textContent.trim(), node.title].join(" ").trim() : "";
  };

  let last = "";
  const report = (records) => {
    for (const root of rootsIn(document)) if (!watched.has(root)) observe(root);
    still(() => reportChange(records));
  };
  const reportChange = (records) => {
    const seen = read();
    const { text, thought, ...facts } = seen;
    const busy = isBusy();
    watching.wasBusy ||= busy;
    const rest = {
      busy,
      ...facts,
      problem: problem(false),
      standing: problem(true) || (notices().map(said).find((words) => words && !oldNotices.has(words)) ?? ""),
      tokens: tokens(records),
    };
    const newText = grown("text", text), newThought = grown("thought", thought);
    const same = JSON.stringify(rest);
    if (!newText && !newThought && same === last) return;
    last = same;
    window.windlassReport(JSON.stringify([number, { ...rest, text: newText, thought: newThought }]));
  };

  const watched = new Set();
  const observer = new MutationObserver(report);
  const observe = (root) => {
    watched.add(root);
    observer.observe(root, { subtree: true, childList: true, characterData: true, attributes: true });
  };
  observe(document);
  // Sees what no mutation shows: a shadow root that was attached late, a property.
  watching = { observer, timer: setInterval(() => report([]), 250), idle: new Set(), button: null, wasBusy: false, turns: before.length };
  noteIdle();
  report([]);
};

/** The fields for the answers of the last calls, in order. */
const answerFields = (known, count) =>
  still(() => {
    const parts = turnsNow(known).flatMap((turn) => turn.parts);
    return parts.filter((part) => part.kind === "call").slice(-count).map((part) => fieldOf(part.node));
  });
