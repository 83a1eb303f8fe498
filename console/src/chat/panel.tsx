// The panel beside a chat: a tool, or the timeline of a run.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ErrorBoundary } from "../parts/boundary";
import { Timeline } from "../run/foot";
import { ToolView } from "../tools/detail";
import { useNow } from "../wire/clock";
import type { Conversation } from "./conversation";
import "../styles/tools.css";

export type PanelContent = { kind: "tool"; name: string } | { kind: "timeline"; runId: string };

/** What the panel shows, if it is open. */
export const panel = signal<PanelContent | undefined>(undefined);
/** The element that opened the panel and gets the focus back. */
let opener: Element | null = null;

/** Opens the panel, or closes it if it already shows this. */
export function togglePanel(content: PanelContent): void {
  if (isShown(content)) return closePanel();
  opener = document.activeElement;
  panel.value = content;
}

export function closePanel(): void {
  panel.value = undefined;
  if (opener instanceof HTMLElement) opener.focus();
}

export function isShown(content: PanelContent): boolean {
  return JSON.stringify(panel.value) === JSON.stringify(content);
}

export function SidePanel({ conversation }: { conversation: Conversation }) {
  const place = useRef<HTMLElement>(null);
  const content = panel.value;
  useEffect(() => {
    if (content) place.current?.focus();
  }, [content]);
  useEffect(() => () => void (panel.value = undefined), [conversation]);
  if (!content) return null;
  const leave = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.preventDefault();
    closePanel();
  };
  const title = content.kind === "tool" ? content.name : "Timeline";
  return (
    <aside class="panel" ref={place} tabIndex={-1} aria-label={title} onKeyDown={leave}>
      <header class="row panel-top">
        <h2 class={content.kind === "tool" ? "grow tools-name" : "grow"}>{title}</h2>
        {content.kind === "tool" && <a class="small" href={`/tools/${encodeURIComponent(content.name)}`}>Open page</a>}
        {content.kind === "timeline" && <a class="small" href={`/runs/${content.runId}`}>View run</a>}
        <button type="button" class="plain small" aria-label="Close panel" title="Close (Escape)" onClick={closePanel}>
          ×
        </button>
      </header>
      <ErrorBoundary key={JSON.stringify(content)} instead={<p class="hint">This cannot be displayed.</p>}>
        {content.kind === "tool" && <ToolView key={content.name} name={content.name} />}
        {content.kind === "timeline" && <RunTimeline key={content.runId} conversation={conversation} runId={content.runId} />}
      </ErrorBoundary>
    </aside>
  );
}

function RunTimeline({ conversation, runId }: { conversation: Conversation; runId: string }) {
  const view = conversation.run(runId).view.value;
  const now = useNow(view.endedAt === undefined);
  return <Timeline view={view} now={now} />;
}
