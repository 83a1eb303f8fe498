// The frame around every page: where one can go, what is announced, and the key, if one is needed.
import type { JSX } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { Announcer } from "./announce";
import { takesFocus, useFocusKept } from "./focus";
import { ChatPage } from "./pages/chat";
import { ReplayPage } from "./pages/replay";
import { RunPage } from "./pages/run";
import { RunsPage } from "./pages/runs";
import { ToolsPage } from "./pages/tools";
import { Guarded } from "./parts/guarded";
import { followLink, path } from "./router";
import { theme, type Theme } from "./theme";
import { locked, useAccessKey } from "./wire/access";
import { ApiError, api, refusal } from "./wire/api";

/** Whether the gateway was asked if it wants a key: before that, there is nothing to show. */
const asked = signal(false);

const PAGES: readonly [pattern: RegExp, page: (id: string) => JSX.Element][] = [
  [/^\/$/, () => <ChatPage key="new" />],
  [/^\/chats\/([^/]+)$/, (id) => <ChatPage key={id} chatId={id} />],
  [/^\/runs$/, () => <RunsPage />],
  [/^\/runs\/([^/]+)$/, (id) => <RunPage key={id} runId={id} />],
  [/^\/tools$/, () => <ToolsPage />],
  [/^\/tools\/([^/]+)$/, (name) => <ToolsPage name={name} />],
  [/^\/replay$/, () => <ReplayPage />],
];

const PLACES = [
  ["/", "Chat", /^\/(chats\/.*)?$/],
  ["/runs", "Runs", /^\/(runs|replay)/],
  ["/tools", "Tools", /^\/tools/],
] as const;

export function App() {
  const main = useRef<HTMLElement>(null);
  useFocusKept(main);
  useEffect(() => {
    const open = () => (asked.value = true);
    api.models().then(open, open);
  }, []);
  return (
    <div class="frame" onClick={followLink} onDragOver={keepFilesOut} onDrop={keepFilesOut}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href="/">
          Windlass
        </a>
        <nav aria-label="Pages">
          {PLACES.map(([to, name, here]) => (
            <a href={to} aria-current={here.test(path.value) ? "page" : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <ThemePicker />
      </header>
      <Announcer />
      <main id="main" ref={main} tabIndex={-1}>
        {locked.value && <KeyForm />}
        {asked.value && !locked.value && (
          <Guarded key={path.value} instead={BROKEN}>
            {page(path.value)}
          </Guarded>
        )}
      </main>
    </div>
  );
}

/** A file that misses its field would be opened by the browser, in place of the page. */
function keepFilesOut(event: DragEvent): void {
  if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
}

const NOWHERE = (
  <section class="page">
    <h1>Nothing here</h1>
    <p>
      There is no page at this address. <a href="/">Go to the chat.</a>
    </p>
  </section>
);

const BROKEN = (
  <section class="page">
    <h1>This page is broken</h1>
    <p>Something here cannot be shown, and that is a mistake in the page itself. To load it again may help.</p>
  </section>
);

function page(where: string): JSX.Element {
  for (const [pattern, made] of PAGES) {
    const name = decoded(pattern.exec(where)?.[1] ?? "");
    if (pattern.test(where) && name !== undefined) return made(name);
  }
  return NOWHERE;
}

/** Nothing for what nobody has encoded: an address may have been cut off anywhere. */
function decoded(name: string): string | undefined {
  try {
    return decodeURIComponent(name);
  } catch {
    return undefined;
  }
}

function KeyForm() {
  const [problem, setProblem] = useState("");
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement).get("key");
    useAccessKey(String(given ?? ""));
    try {
      await api.models();
      locked.value = false;
    } catch (error) {
      setProblem(error instanceof ApiError && error.status === 401 ? "The gateway does not take this key." : refusal(error));
    }
  };
  return (
    <form class="page narrow" onSubmit={(event) => void submit(event)}>
      <h1>This gateway asks for a key</h1>
      <label>
        Key
        <input name="key" type="password" autocomplete="off" required ref={takesFocus} />
      </label>
      {problem && (
        <p class="card-error" role="alert">
          {problem}
        </p>
      )}
      <p class="hint">It is kept in this tab alone, and forgotten with it.</p>
      <button type="submit">Enter</button>
    </form>
  );
}

function ThemePicker() {
  return (
    <select
      class="plain"
      aria-label="Colours"
      value={theme.value}
      onChange={(event) => (theme.value = event.currentTarget.value as Theme)}
    >
      <option value="system">System</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}
