// Every tool, and how it has fared.
import { useEffect, useState } from "preact/hooks";
import { announce } from "../announce";
import { plural } from "../run/words";
import { useTitle } from "../title";
import { api } from "../wire/api";
import type { Tool } from "../wire/types";
import { useLoaded } from "./loading";
import { homeOf, isFound, shortly } from "./words";

export function ToolList() {
  const { value: tools, problem } = useLoaded("all", api.tools);
  const [sought, setSought] = useState("");
  useTitle("Tools");
  const found = (tools ?? []).filter((tool) => isFound(sought, tool));
  useEffect(() => {
    if (sought) announce(`${plural(found.length, "tool")} found`);
  }, [sought]);
  return (
    <section class="page tools">
      <h1>Tools</h1>
      {problem && <p class="tools-problem">{problem}</p>}
      {!tools && !problem && <p class="hint">Loading…</p>}
      {tools?.length === 0 && <p>No model of this gateway offers a tool. Name some in windlass.toml: tools = […].</p>}
      {tools && tools.length > 0 && (
        <>
          <input
            type="search"
            aria-label="Search the tools"
            placeholder="Search"
            value={sought}
            onInput={(event) => setSought(event.currentTarget.value)}
          />
          <ul class="tools-list">
            {found.map((tool) => (
              <Entry key={tool.name} tool={tool} />
            ))}
          </ul>
          {!found.length && <p class="hint">No tool has “{sought}” in its name or description.</p>}
        </>
      )}
    </section>
  );
}

function Entry({ tool }: { tool: Tool }) {
  const { count, failures } = tool.calls;
  return (
    <li class="tools-entry" data-tool={tool.name}>
      <div class="grow">
        <a class="tools-name" href={`/tools/${encodeURIComponent(tool.name)}`}>
          {tool.name}
        </a>
        {tool.approve && <span class="tools-tag">asks first</span>}
        <p>{shortly(tool.description)}</p>
      </div>
      <p class="hint tools-figures">
        {homeOf(tool.origin)} · {count ? plural(count, "call") : "no calls yet"}
        {failures > 0 && (
          <>
            , <span class="tools-bad">{failures} failed</span>
          </>
        )}
      </p>
    </li>
  );
}
