// Replays a finished run. Pure: the caller passes the time.
import type { RunEvent } from "../wire/types";
import { RunFold, folded } from "./fold";
import type { RunView } from "./view";

const FORMAT = "windlass.run";
const VERSION = 1;

/** The part of an exported file that the page uses. */
export interface RunExport {
  run: { id: string; model: string };
  events: RunEvent[];
}

/** Reads an exported file. Throws an `Error` that describes the problem. */
export function readExport(text: string): RunExport {
  const file = fieldsOf(parsed(text));
  if (file["format"] !== FORMAT) throw new Error(`Not a run export: it has no "format": "${FORMAT}".`);
  const version = file["version"];
  if (typeof version === "number" && version > VERSION) {
    throw new Error(`This run export has version ${version}, and this console supports version ${VERSION}. Update Windlass.`);
  }
  const events = file["events"];
  if (version !== VERSION || !Array.isArray(events) || !events.every(isEvent) || !canBeFolded(events)) {
    throw new Error("This run export is damaged: its events cannot be read.");
  }
  if (!events.length) throw new Error("This run export has no events.");
  const run = fieldsOf(file["run"]);
  return { run: { id: String(run["id"] ?? ""), model: String(run["model"] ?? "") }, events };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`Not a run export: invalid JSON (${(error as Error).message}).`);
  }
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function isEvent(value: unknown): value is RunEvent {
  const { event, seq, time } = fieldsOf(value);
  return typeof event === "string" && typeof seq === "number" && typeof time === "number";
}

function canBeFolded(events: readonly RunEvent[]): boolean {
  try {
    return folded(events).lastSeq >= 0;
  } catch {
    return false;
  }
}

/** The view of a run at any time. Moving forward is cheap; moving backward starts over. */
export class Player {
  readonly start: number;
  /** The time from the first event to the last. */
  readonly seconds: number;
  /** The time of each event, never less than the one before: the clock may have been set back. */
  private readonly times: readonly number[];
  private fold = new RunFold();
  private next = 0;

  constructor(private readonly events: readonly RunEvent[]) {
    this.start = events[0]?.time ?? 0;
    let latest = 0;
    this.times = events.map(({ time }) => (latest = Math.max(latest, time - this.start)));
    this.seconds = latest;
  }

  /** The view this many seconds after the start. */
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
