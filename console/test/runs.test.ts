import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf, filtersIn, listQuery } from "../src/runs/filters";
import { merged, quantile, totalsOf } from "../src/runs/totals";
import type { Run } from "../src/wire/types";

function run(id: string, status: Run["status"], tools: Record<string, [calls: number, failures: number]> = {}): Run {
  const used = Object.entries(tools).map(([name, [calls, failures]]) => [name, { calls, failures, seconds: calls }]);
  return { id, status, summary: { seconds: 1, rounds: 1, input_tokens: 10, output_tokens: 5, tools: Object.fromEntries(used) } } as Run;
}

test("totals count runs and tokens, and name the tool that fails most first", () => {
  const totals = totalsOf([
    run("a", "ended", { look: [4, 0], pay: [1, 1] }),
    run("b", "failed", { pay: [2, 1] }),
    run("c", "running"),
    { id: "d", status: "ended" } as Run,
  ]);
  assert.deepEqual(totals, {
    runs: 4,
    running: 1,
    failed: 1,
    stopped: 0,
    inputTokens: 30,
    outputTokens: 15,
    tools: [
      ["pay", { calls: 3, failures: 2, seconds: 3 }],
      ["look", { calls: 4, failures: 0, seconds: 4 }],
    ],
  });
});

test("quantiles are values of the runs", () => {
  assert.equal(quantile([3, 1, 2], 0.5), 2);
  assert.equal(quantile([9, 1], 0.5), 1);
  assert.equal(quantile([1, 2, 3, 4], 0.95), 4);
  assert.equal(quantile([], 0.5), 0);
});

test("a refreshed page keeps the older runs, and drops those that were deleted", () => {
  const known = [5, 4, 3, 2, 1].map((created) => ({ id: `run_${created}`, created }));
  const newest = [7, 6, 4].map((created) => ({ id: `run_${created}`, created }));
  assert.deepEqual(merged(newest, known).map(({ id }) => id), ["run_7", "run_6", "run_4", "run_3", "run_2", "run_1"]);
  assert.deepEqual(merged([], known), []);
});

test("filters are what the address says, and the address what the filters say", () => {
  const filters = { q: "a b&c", status: "failed", model: "", tool: "pay", from: "", to: "" };
  assert.equal(addressOf(filters), "/runs?q=a+b%26c&status=failed&tool=pay");
  assert.deepEqual(filtersIn("?q=a+b%26c&status=failed&tool=pay&other=1"), filters);
  assert.equal(addressOf(filtersIn("")), "/runs");
  assert.equal(String(listQuery(filters, 50, "run_1")), "status=failed&tool=pay&text=a+b%26c&summary=true&limit=50&before=run_1");
  const day = listQuery({ ...filters, from: "2026-11-01", to: "2026-11-01" }, 50);
  assert.equal(Number(day.get("since")), Date.parse("2026-11-01T00:00:00") / 1000);
  assert.equal(Number(day.get("until")) - Number(day.get("since")), 24 * 60 * 60);
  assert.equal(listQuery({ ...filters, from: "soon" }, 50).get("since"), null);
});
