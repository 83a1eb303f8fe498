// A run that is over, told again in its own time. Pure: whoever plays it says what time it is.
import type { RunEvent } from "../wire/types";
import { RunFold, folded } from "./fold";
import type { RunView } from "./view";

const FORMAT = "windlass.run";
const VERSION = 1;

/** What the page needs of an exported file. */
export interface RunExport {
  run: { id: string; model: string };
  events: RunEvent[];
}

/** The run in an exported file. Throws an `Error` that says what is wrong with it. */
export function readExport(text: string): RunExport {
  const file = fieldsOf(parsed(text));
  if (file["format"] !== FORMAT) throw new Error(`Not an export of a run: it has no "format": "${FORMAT}".`);
  const version = file["version"];
  if (typeof version === "number" && version > VERSION) {
    throw new Error(`An export of a later version (${version}, and this page knows ${VERSION}): update Windlass.`);
  }
  const events = file["events"];
  if (version !== VERSION || !Array.isArray(events) || !events.every(isEvent) || !isTellable(events)) {
    throw new Error("An export of a run, but damaged: its events cannot be read.");
  }
  if (!events.length) throw new Error("An export of a run, but there is no event in it.");
  const run = fieldsOf(file["run"]);
  return { run: { id: String(run["id"] ?? ""), model: String(run["model"] ?? "") }, events };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`Not an export of a run: it is not JSON (${(error as Error).message}).`);
  }
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function isEvent(value: unknown): value is RunEvent {
  const { event, seq, time } = fieldsOf(value);
  return typeof event === "string" && typeof seq === "number" && typeof time === "number";
}

function isTellable(events: readonly RunEvent[]): boolean {
  try {
    return folded(events).lastSeq >= 0;
  } catch {
    return false;
  }
}

/** The run as it was at any moment of it. Forward is cheap; backward begins anew. */
export class Player {
  readonly start: number;
  /** From the first event to the last. */
  readonly seconds: number;
  /** Of each event, never less than of the one before: a clock may have been set back meanwhile. */
  private readonly times: readonly number[];
  private fold = new RunFold();
  private next = 0;

  constructor(private readonly events: readonly RunEvent[]) {
    this.start = events[0]?.time ?? 0;
    let latest = 0;
    this.times = events.map(({ time }) => (latest = Math.max(latest, time - this.start)));
    this.seconds = latest;
  }

  /** The run so many seconds after its start. */
  at(seconds: number): RunView {
    if (this.next > 0 && (this.times[this.next - 1] ?? 0) > seconds) this.rewind();
    for (let event = this.due(seconds); event; event = this.due(seconds)) {
      this.fold.add(event);
      this.next++;
    }
    return this.fold.view();
  }

  private due(seconds: number): RunEvent | undefined {
    return (this.times[this.next] ?? Infinity) <= seconds ? this.events[this.next] : undefined;
  }

  private rewind(): void {
    this.fold = new RunFold();
    this.next = 0;
  }
}
