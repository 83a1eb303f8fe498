// One tool: what it is, a form to call it by hand, what was last done with it.
import { useEffect, useMemo, useState } from "preact/hooks";
import { Value } from "../parts/value";
import { fieldsOf, initialOf, type Fields } from "../parts/schema";
import { offeredTool, type OfferedTool } from "../wire/tools";
import { CallByHand } from "./call";
import { LastCalls } from "./last";
import { useLoaded } from "./loading";
import { homeOf } from "./words";

export function ToolDetail({ name }: { name: string }) {
  const { value: tool, problem, again } = useLoaded(name, () => offeredTool(name));
  useEffect(() => {
    document.title = `${name} · Windlass`;
    return () => {
      document.title = "Windlass";
    };
  }, [name]);
  return (
    <section class="page tools-one">
      <p class="tools-back">
        <a href="/tools">All tools</a>
      </p>
      <h1 class="tools-name">{name}</h1>
      {problem && <p class="tools-problem">{problem}</p>}
      {!tool && !problem && <p class="hint">Loading…</p>}
      {tool && <Known tool={tool} again={again} />}
    </section>
  );
}

function Known({ tool, again }: { tool: OfferedTool; again: () => void }) {
  const begin = useMemo(() => initialOf(fieldsOf(tool.parameters) ?? []), [tool.name]);
  const [given, setGiven] = useState<Fields>(begin);
  return (
    <>
      <p class="tools-description">{tool.description}</p>
      <Facts tool={tool} />
      <h2>Call it</h2>
      <CallByHand tool={tool} given={given} setGiven={setGiven} called={again} />
      <h2>Last calls</h2>
      <LastCalls calls={tool.calls} reuse={setGiven} />
      <h2>Schema</h2>
      <Value value={tool.parameters} label="JSON Schema of the arguments" />
    </>
  );
}

function Facts({ tool }: { tool: OfferedTool }) {
  return (
    <dl class="tools-facts">
      <dt>Lives in</dt>
      <dd>{homeOf(tool.origin)}</dd>
      <dt>Offered by</dt>
      <dd>{tool.models.join(", ")}</dd>
      <dt>Before it runs</dt>
      <dd>{tool.approve ? "asks a person" : "asks nobody"}</dd>
      <dt>Run twice</dt>
      <dd>{tool.idempotent ? "has the effect of once" : "may have its effect twice"}</dd>
    </dl>
  );
}
