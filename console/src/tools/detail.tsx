// The page of one tool: its description, a form to call it, and its recent calls.
import { useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { Value } from "../parts/value";
import { Collapsible } from "../run/collapsible";
import { fieldsOf, initialOf, type Fields } from "../parts/schema";
import { useTitle } from "../title";
import { api } from "../wire/api";
import type { Tool } from "../wire/types";
import { CallForm, type Given } from "./call";
import { RecentCalls } from "./recent";
import { useLoaded } from "./loading";
import { locationOf } from "./labels";

export function ToolDetail({ name }: { name: string }) {
  useTitle(name);
  return (
    <section class="page tools-page">
      <a class="hint" href="/tools">
        All tools
      </a>
      <h1 class="tools-name">{name}</h1>
      <ToolView name={name} />
    </section>
  );
}

/** Everything about a tool, without the heading. */
export function ToolView({ name }: { name: string }) {
  const { value: tool, problem, again } = useLoaded(name, () => api.tool(name));
  return (
    <div class="tools">
      {problem && <p class="tools-problem">{problem}</p>}
      {!tool && !problem && <p class="hint">Loading…</p>}
      {tool && <Known tool={tool} again={again} />}
    </div>
  );
}

function Known({ tool, again }: { tool: Tool; again: () => void }) {
  const [given, setGiven] = useState<Given>(() => ({ value: initialOf(fieldsOf(tool.parameters) ?? []), valid: true }));
  const form = useRef<HTMLHeadingElement>(null);
  const reuse = (value: Fields) => {
    setGiven({ value, valid: true });
    form.current?.scrollIntoView();
    announce("Arguments copied to the form.");
  };
  return (
    <>
      <p class="tools-description">{tool.description}</p>
      <Facts tool={tool} />
      <h2 ref={form}>Call this tool</h2>
      <CallForm tool={tool} given={given} setGiven={setGiven} called={again} />
      <h2>Recent calls</h2>
      <RecentCalls calls={tool.calls} reuse={reuse} />
      <Collapsible label="JSON Schema of the arguments">{() => <Value value={tool.parameters} label="Schema" />}</Collapsible>
    </>
  );
}

function Facts({ tool }: { tool: Tool }) {
  const facts = [
    `Runs in ${locationOf(tool.origin)}`,
    `available to ${tool.models.join(", ")}`,
    tool.approve && "needs approval",
    tool.idempotent && "safe to run again",
  ];
  return <p class="hint">{facts.filter(Boolean).join(" · ")}</p>;
}
