// Folds the events of a run into the view that the page shows. Pure: no clock, no network, no DOM.
import type { FunctionCall, RunEvent, ToolRunEnded, Usage } from "../wire/types";
import type { CallState, CallView, Item, RoundView, RunView } from "./view";

const STATE_OF: Record<ToolRunEnded["outcome"], CallState> = {
  ok: "output-available",
  error: "output-error",
  invalid_arguments: "output-error",
  unknown_tool: "output-error",
  timeout: "output-error",
  interrupted: "output-error",
  denied: "denied",
  stopped: "cancelled",
  not_run: "cancelled",
};

const NO_USAGE: Usage = {};

/** Rounds and calls are replaced when they change, never mutated, so identity means equality. */
export class RunFold {
  private run: RunView = emptyRun();
  private rounds: RoundView[] = [];
  private items: Item[] = [];
  private calls = new Map<string, CallView>();
  /** The call id for each index of this turn. */
  private said = new Map<number, string>();

  /** The current view. Later events do not change it. */
  view(): RunView {
    this.closeItems();
    return { ...this.run, rounds: [...this.rounds], calls: new Map(this.calls) };
  }

  get lastSeq(): number {
    return this.run.lastSeq;
  }

  get ended(): boolean {
    return this.run.endedAt !== undefined;
  }

  /** Adds the next event. An event that was added before changes nothing. */
  add(event: RunEvent): void {
    if (event.seq <= this.run.lastSeq) return;
    this.run.lastSeq = event.seq;
    this.run.lastAt = event.time;
    switch (event.event) {
      case "run_started":
        this.run = {
          ...this.run,
          id: event.run_id,
          model: event.model,
          messages: event.messages,
          maxRounds: event.max_rounds ?? null,
          startedAt: event.time,
        };
        break;
      case "run_resumed":
        this.run.resumedAt = [...this.run.resumedAt, event.time];
        break;
      case "round_started":
        this.beginRound(event.round, event.time, event.tools_off ?? false);
        break;
      case "round_restarted":
        this.supersedeRound();
        this.beginRound(event.round, event.time, event.tools_off ?? false);
        break;
      case "output_rejected":
        this.changeRound({ superseded: true });
        break;
      case "text_delta":
        this.say("text", event.text);
        break;
      case "thought_delta":
        this.say("thought", event.text);
        break;
      case "part_received":
        if (event.part.type === "inline_data" || event.part.type === "file_data") {
          this.items.push({ kind: "media", part: event.part });
        }
        break;
      case "tool_call_started":
        this.said.set(event.index, event.id);
        this.call({ id: event.id, name: event.name }, event.time);
        break;
      case "tool_call_delta": {
        const call = this.calls.get(this.said.get(event.index) ?? "");
        if (call) this.calls.set(call.id, { ...call, input: call.input + event.json });
        break;
      }
      case "tool_call_ended":
        this.change(event.call, event.time, { state: "input-available", input: event.call.json ?? "{}" });
        break;
      case "turn_ended":
        this.changeRound({ endedAt: event.time, finish: event.finish, usage: event.usage ?? NO_USAGE });
        break;
      case "status":
        this.run.status = event.message;
        break;
      case "approval_requested":
        this.change(event.call, event.time, {
          state: "approval-requested",
          approval: { asked: event.time, why: event.reason ?? null },
        });
        break;
      case "approval_resolved": {
        const call = this.calls.get(event.call_id);
        if (call?.approval) {
          const approval = {
            ...call.approval,
            answered: event.time,
            approved: event.approved,
            arguments: event.arguments ?? null,
            reason: event.reason ?? null,
          };
          this.calls.set(call.id, { ...call, approval, state: decided(call, event.approved) });
        }
        break;
      }
      case "tool_run_started":
        this.change(event.call, event.time, { state: "running", startedAt: event.time });
        break;
      case "tool_run_progress": {
        const call = this.calls.get(event.call_id);
        if (call) {
          const progress = { fraction: event.progress ?? null, message: event.message ?? null, data: event.data };
          this.calls.set(call.id, { ...call, progress });
        }
        break;
      }
      case "tool_run_ended":
        this.answer(event);
        break;
      case "run_ended":
        this.run = { ...this.run, endedAt: event.time, reason: event.reason, error: event.error ?? null, usage: event.usage ?? NO_USAGE, status: "" };
        for (const call of this.calls.values()) this.cancelIncomplete(call);
        break;
      default:
        event satisfies never;
    }
  }

  private beginRound(number: number, startedAt: number, toolsOff: boolean): void {
    this.closeItems();
    if (!toolsOff) this.run.status = "";
    this.items = [];
    this.said.clear();
    this.rounds.push({ number, toolsOff, startedAt, usage: NO_USAGE, items: [], superseded: false });
  }

  private supersedeRound(): void {
    this.changeRound({ superseded: true });
    for (const item of this.items) {
      const call = item.kind === "call" ? this.calls.get(item.id) : undefined;
      if (call) this.cancelIncomplete(call);
    }
  }

  /** A call whose arguments are incomplete never runs. */
  private cancelIncomplete(call: CallView): void {
    if (call.state === "input-streaming") this.calls.set(call.id, { ...call, state: "cancelled" });
  }

  private say(kind: "text" | "thought", text: string): void {
    const last = this.items.at(-1);
    if (last?.kind === kind) this.items[this.items.length - 1] = { kind, text: last.text + text };
    else this.items.push({ kind, text });
  }

  private call(said: Pick<FunctionCall, "id" | "name">, time: number): CallView {
    const id = said.id ?? "";
    const known = this.calls.get(id);
    if (known) return known;
    const call: CallView = {
      id,
      name: said.name,
      round: this.rounds.at(-1)?.number ?? 0,
      state: "input-streaming",
      input: "",
      saidAt: time,
      seconds: 0,
      attempts: 1,
      cached: false,
      effectUnknown: false,
      crashed: false,
    };
    this.calls.set(id, call);
    this.items.push({ kind: "call", id });
    return call;
  }

  private change(said: FunctionCall, time: number, patch: Partial<CallView>): void {
    const call = this.call(said, time);
    this.calls.set(call.id, { ...call, input: call.input || (said.json ?? ""), ...patch });
  }

  private answer(event: ToolRunEnded): void {
    this.change({ type: "function_call", id: event.response.id ?? "", name: event.response.name }, event.time, {
      state: STATE_OF[event.outcome],
      endedAt: event.time,
      outcome: event.outcome,
      response: event.response,
      seconds: event.seconds ?? 0,
      attempts: event.attempts ?? 1,
      cached: event.cached ?? false,
      effectUnknown: event.effect_unknown ?? false,
      crashed: event.crashed ?? false,
    });
  }

  private changeRound(patch: Partial<RoundView>): void {
    const last = this.rounds.at(-1);
    if (last) this.rounds[this.rounds.length - 1] = { ...last, ...patch };
  }

  /** Copies new items into the round's value. */
  private closeItems(): void {
    const known = this.rounds.at(-1)?.items;
    if (known && (known.length !== this.items.length || known.at(-1) !== this.items.at(-1))) {
      this.changeRound({ items: [...this.items] });
    }
  }
}

/** After approval, a tool that asked while running continues; any other waits for its start. */
function decided(call: CallView, approved: boolean): CallState {
  if (!approved) return "denied";
  return call.startedAt === undefined ? "input-available" : "running";
}

export function emptyRun(): RunView {
  return {
    id: "",
    model: "",
    messages: [],
    maxRounds: null,
    startedAt: 0,
    lastAt: 0,
    lastSeq: 0,
    rounds: [],
    calls: new Map(),
    status: "",
    resumedAt: [],
    usage: NO_USAGE,
  };
}

/** The view after all these events. */
export function folded(events: Iterable<RunEvent>): RunView {
  const fold = new RunFold();
  for (const event of events) fold.add(event);
  return fold.view();
}
