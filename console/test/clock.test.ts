import assert from "node:assert/strict";
import { test } from "node:test";
import { learnTime, serverNow } from "../src/wire/clock";

/** How many seconds the gateway's clock is thought to be ahead. */
function ahead(): number {
  const { now } = Date;
  Date.now = () => 0; // a real clock could advance between two readings
  try {
    return serverNow();
  } finally {
    Date.now = now;
  }
}

/** The gateway answers at once, `offset` milliseconds ahead, with whole seconds in its `Date`. */
function answered(at: number, offset: number): void {
  learnTime(new Date(at + offset).toUTCString(), at, at + 20);
}

test("clocks that may be the same are the same", () => {
  for (const at of [1_000_000_100, 1_000_003_950, 1_000_009_500]) answered(at, 0);
  assert.equal(ahead(), 0);
});

test("a clock that is an hour off is learnt to a second, and better with every answer", () => {
  for (const hour of [3_600_000, -3_600_000]) {
    const off: number[] = [];
    for (let at = 2_000_000_000; at < 2_000_040_000; at += 4_300) {
      answered(at, hour);
      off.push(Math.abs(ahead() - hour / 1000));
    }
    assert(Math.max(...off) <= 1.1);
    assert((off.at(-1) ?? 9) <= (off[0] ?? 0));
  }
});

test("an answer without a date teaches nothing", () => {
  const before = ahead();
  learnTime(null, 0, 0);
  learnTime("soon", 0, 0);
  assert.equal(Math.round(ahead() - before), 0);
});
