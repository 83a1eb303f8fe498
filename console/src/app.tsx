// The frame around every page: where one can go, what is announced, and the key, if one is needed.
import type { JSX } from "preact";
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Announcer } from "./announce";
import { ChatPage } from "./pages/chat";
import { ReplayPage } from "./pages/replay";
import { RunPage } from "./pages/run";
import { RunsPage } from "./pages/runs";
import { ToolsPage } from "./pages/tools";
import { followLink, path } from "./router";
import { theme, type Theme } from "./theme";
import { ApiError, api, useAccessKey } from "./wire/api";

type Access = "unknown" | "open" | "locked";
const access = signal<Access>("unknown");

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
  useEffect(() => {
    void enter();
  }, []);
  return (
    <div class="frame" onClick={followLink}>
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
      <main id="main" tabIndex={-1}>
        {access.value === "open" && page(path.value)}
        {access.value === "locked" && <KeyForm />}
      </main>
    </div>
  );
}

async function enter(): Promise<void> {
  try {
    await api.models();
    access.value = "open";
  } catch (error) {
    access.value = error instanceof ApiError && error.status === 401 ? "locked" : "open";
  }
}

function page(where: string): JSX.Element {
  for (const [pattern, made] of PAGES) {
    const found = pattern.exec(where);
    if (found) return made(decodeURIComponent(found[1] ?? ""));
  }
  return (
    <section class="page">
      <h1>Nothing here</h1>
      <p>
        There is no page at this address. <a href="/">Go to the chat.</a>
      </p>
    </section>
  );
}

function KeyForm() {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement).get("key");
    useAccessKey(String(given ?? ""));
    access.value = "unknown";
    void enter();
  };
  return (
    <form class="page narrow" onSubmit={submit}>
      <h1>This gateway asks for a key</h1>
      <label>
        Key
        <input name="key" type="password" autocomplete="off" required />
      </label>
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
