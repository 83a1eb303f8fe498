// Waits of the actions of a user. Each resolves as soon as the page is so, or the time is over.

/** Resolves when the page has not changed for `quiet` milliseconds. */
const settled = (quiet, limit) =>
  new Promise((resolve) => {
    const end = () => {
      observer.disconnect();
      clearTimeout(whole);
      resolve();
    };
    let timer = setTimeout(end, quiet);
    const whole = setTimeout(end, limit);
    const observer = new MutationObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(end, quiet);
    });
    observer.observe(document, { subtree: true, childList: true, attributes: true });
  });

/** Repeats `look` until it returns something; `late` after the limit. No limit is 0. */
const looked = (look, limit, late) =>
  new Promise((resolve) => {
    const started = performance.now();
    const again = () => {
      const answer = look();
      if (answer !== undefined) resolve(answer);
      else if (limit && performance.now() - started > limit) resolve(late());
      else setTimeout(again, 30);
    };
    again();
  });

/** Whether the page asks before it discards the chat, or has discarded it. */
const discarded = (limit) =>
  looked(
    () => (!all("turn", document).length ? "empty" : find("discard") ? "asks" : undefined),
    limit,
    () => "late",
  );

/** Whether the page has taken the text of the prompt's field. */
const taken = (field, text, limit) => {
  const plain = (words) => (words ?? "").replace(/\s+/g, "");
  return looked(
    () => (hasStarted() ? true : undefined),
    limit,
    // A page that was drawn again has another field.
    () => field.isConnected && plain(field.value ?? field.innerText) !== plain(text),
  );
};

const idle = () => looked(() => (still(isBusy) ? undefined : true), 0);

/** Whether the element is no longer behind another one. */
const uncovered = (node, limit) => looked(() => (coverOf(node) ? undefined : true), limit, () => false);
