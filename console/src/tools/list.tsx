// The list of tools, with their calls and failures.
import { useEffect, useState } from "preact/hooks";
import { announce } from "../announce";
import { plural } from "../run/labels";
import { useTitle } from "../title";
import { api } from "../wire/api";
import type { Tool } from "../wire/types";
import { useLoaded } from "./loading";
import { locationOf, matches, firstSentence } from "./labels";

export function ToolList() {
  const { value: tools, problem } = useLoaded("all", api.tools);
  const [search, setSearch] = useState("");
  useTitle("Tools");
  const found = (tools ?? []).filter((tool) => matches(search, tool));
  useEffect(() => {
    if (search) announce(`${plural(found.length, "tool")} found`);
  }, [search]);
  return (
    <section class="page tools tools-page">
      <h1>Tools</h1>
      {problem && <p class="tools-problem">{problem}</p>}
      {!tools && !problem && <p class="hint">Loading…</p>}
      {tools?.length === 0 && <p>No model of this gateway has tools. List them in windlass.toml: tools = […].</p>}
      {tools && tools.length > 0 && (
        <>
          <input
            type="search"
            aria-label="Search tools"
            placeholder="Search"
            value={search}
            onInput={(event) => setSearch(event.currentTarget.value)}
          />
          <ul class="tools-list">
            {found.map((tool) => (
              <Entry key={tool.name} tool={tool} />
            ))}
          </ul>
          {!found.length && <p class="hint">No tool matches “{search}”.</p>}
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
        {tool.approve && <span class="tools-tag">needs approval</span>}
        <p>{firstSentence(tool.description)}</p>
      </div>
      <p class="hint tools-figures">
        {locationOf(tool.origin)} · {count ? plural(count, "call") : "no calls yet"}
        {failures > 0 && (
          <>
            , <span class="tools-bad">{failures} failed</span>
          </>
        )}
      </p>
    </li>
  );
}
