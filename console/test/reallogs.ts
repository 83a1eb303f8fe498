// Logs of real runs: the page's fold and the library have to agree on them.
// `node test/run.mjs reallogs.ts -- logs.json`; tests/console/test_console_logic.py writes the logs.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { argv } from "node:process";
import { test } from "node:test";
import { folded } from "../src/run/fold";
import type { CallView, RoundView, RunView } from "../src/run/view";
import type { RunEvent } from "../src/wire/types";

interface Log {
  name: string;
  events: RunEvent[];
  rounds: unknown[];
  /** For each round, whether the model was offered no tools; null where nobody has looked. */
  tools_off: boolean[] | null;
}

const NO_USAGE = { input_tokens: 0, output_tokens: 0, total_tokens: 0, cached_tokens: 0, thought_tokens: 0 };

function toldRound(view: RunView, round: RoundView): unknown {
  const words = (kind: "text" | "thought") =>
    round.items.flatMap((item) => (item.kind === kind ? [item.text] : [])).join("");
  const calls = round.items.flatMap((item) => (item.kind === "call" ? [view.calls.get(item.id)] : []));
  return {
    number: round.number,
    started: round.startedAt,
    ended: round.endedAt ?? null,
    superseded: round.superseded,
    text: words("text"),
    thoughts: words("thought"),
    finish: round.finish ?? null,
    usage: { ...NO_USAGE, ...round.usage },
    calls: calls.filter((call) => call !== undefined).filter(wasSaid).map(toldCall),
  };
}

/** Of a call that broke off while it was said, the library tells nothing. */
function wasSaid(call: CallView): boolean {
  return call.state !== "input-streaming" && !(call.state === "cancelled" && call.outcome === undefined);
}

function toldCall(call: CallView): unknown {
  const { approval } = call;
  return {
    id: call.id,
    name: call.name,
    arguments: objectOr(call.input),
    approval: approval && {
      asked: approval.asked,
      answered: approval.answered ?? null,
      approved: approval.approved ?? null,
      arguments: approval.arguments ?? null,
      reason: approval.reason ?? null,
    },
    started: call.startedAt ?? null,
    ended: call.endedAt ?? null,
    seconds: call.seconds,
    outcome: call.outcome ?? null,
    response: call.response?.response ?? null,
    attempts: call.attempts,
    cached: call.cached,
    effect_unknown: call.effectUnknown,
    crashed: call.crashed,
  };
}

function objectOr(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : text;
  } catch {
    return text;
  }
}

/** What is absent on one side and null on the other is the same. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (_, field: unknown) => field ?? undefined);
}

for (const log of JSON.parse(readFileSync(argv.at(-1) ?? "", "utf8")) as Log[]) {
  test(log.name, () => {
    const view = folded(log.events);
    assert.deepEqual(plain(view.rounds.map((round) => toldRound(view, round))), plain(log.rounds));
    if (log.tools_off) assert.deepEqual(view.rounds.map((round) => round.toolsOff), log.tools_off);
  });
}
