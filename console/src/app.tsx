// The frame around every page: navigation, announcements, and the key form if the gateway requires a key.
import type { JSX } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { Announcer } from "./announce";
import { fetchModels, loadModels, preparing } from "./chat/models";
import { useRefresh } from "./chat/refresh";
import { takesFocus, useFocusKept } from "./focus";
import { ChatPage } from "./pages/chat";
import { ReplayPage } from "./pages/replay";
import { RunPage } from "./pages/run";
import { RunsPage } from "./pages/runs";
import { ToolsPage } from "./pages/tools";
import { ErrorBoundary } from "./parts/boundary";
import { Logo } from "./parts/logo";
import { followLink, path } from "./router";
import { HelpLink, HelpSheet, useShortcuts } from "./shortcuts";
import { theme, type Theme } from "./theme";
import { locked, useAccessKey } from "./wire/access";
import { ApiError, refusal } from "./wire/api";

/** Whether the first request has been answered. Until then the page does not know if it needs a key. */
const asked = signal(false);

/** How often the page asks about a model that is not ready. */
const PREPARATION_INTERVAL = 1_000;

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
  useShortcuts();
  useEffect(() => {
    void loadModels().then(() => (asked.value = true));
  }, []);
  useRefresh(async () => {
    if (preparing.value) await loadModels();
  }, PREPARATION_INTERVAL);
  return (
    <div class="frame" onClick={followLink} onDragOver={keepFilesOut} onDrop={keepFilesOut}>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href="/" aria-label="Windlass">
          <Logo size={24} />
          <span>Windlass</span>
        </a>
        <nav aria-label="Pages">
          {PLACES.map(([to, name, here]) => (
            <a href={to} aria-current={here.test(path.value) ? "page" : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <HelpLink />
        <ThemePicker />
      </header>
      <Announcer />
      <HelpSheet />
      <main id="main" ref={main} tabIndex={-1}>
        {locked.value && <KeyForm />}
        {asked.value && !locked.value && (
          <ErrorBoundary key={path.value} instead={BROKEN}>
            {page(path.value)}
          </ErrorBoundary>
        )}
      </main>
    </div>
  );
}

/** Without this, the browser would leave the page and open a file that is dropped outside a field. */
function keepFilesOut(event: DragEvent): void {
  if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
}

const NOT_FOUND = (
  <section class="page narrow">
    <Logo size={48} />
    <h1>Page not found</h1>
    <p>There is no page at this address. The link may be incomplete. These pages exist:</p>
    <ul>
      <li><a href="/">Chat</a></li>
      <li><a href="/runs">Runs</a></li>
      <li><a href="/tools">Tools</a></li>
      <li><a href="/replay">Replay an exported run</a></li>
    </ul>
  </section>
);

const BROKEN = (
  <section class="page">
    <h1>Something went wrong</h1>
    <p>The console cannot display this page because of an error in the console itself. Reload the page to try again.</p>
  </section>
);

function page(where: string): JSX.Element {
  for (const [pattern, made] of PAGES) {
    const name = decoded(pattern.exec(where)?.[1] ?? "");
    if (pattern.test(where) && name !== undefined) return made(name);
  }
  return NOT_FOUND;
}

/** Undefined if the encoding is invalid: an address may be truncated anywhere. */
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
      await fetchModels();
      locked.value = false;
    } catch (error) {
      setProblem(error instanceof ApiError && error.status === 401 ? "The gateway rejected this key." : refusal(error));
    }
  };
  return (
    <form class="page narrow" onSubmit={(event) => void submit(event)}>
      <h1>This gateway requires a key</h1>
      <label>
        Key
        <input name="key" type="password" autocomplete="off" required ref={takesFocus} />
      </label>
      {problem && (
        <p class="card-error" role="alert">
          {problem}
        </p>
      )}
      <p class="hint">The key is stored in this tab only and is deleted when you close the tab.</p>
      <button type="submit">Continue</button>
    </form>
  );
}

function ThemePicker() {
  return (
    <label class="theme">
      Theme
      <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>
        <option value="system">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}
