// A worker in Node, written from docs/worker-wire.md alone.
// node node_worker.mjs ADDRESS SESSION MAX_RUNNING

import { connect } from "@nats-io/transport-node";

const [address, session, maxRunning] = process.argv.slice(2);
const worker = `node-${crypto.randomUUID()}`;
const announceSubject = `windlass.v1.announce.${session}.${worker}`;
const rememberedResults = 1000;

class Failure extends Error {
  constructor(text, more = {}) {
    super(text);
    this.more = more;
  }
}

let attempts = 0;

const integer = { type: "integer" };
const text = { type: "string" };
const object = (properties, required = Object.keys(properties)) => ({ type: "object", properties, required });

// Each tool: what is announced, and `run(arguments, job)`.
const tools = {
  add: {
    description: "Adds two numbers.",
    parameters: object({ a: integer, b: integer }),
    run: ({ a, b }) => a + b,
  },
  count: {
    description: "Counts the calls of this worker.",
    run: () => (attempts += 1),
  },
  fail: {
    description: "Fails.",
    run: () => { throw new Failure("out of luck"); },
  },
  flaky: {
    description: "Succeeds the third time.",
    idempotent: true,
    run: () => {
      attempts += 1;
      if (attempts < 3) throw new Failure(`attempt ${attempts} failed`, { retryable: true });
      return attempts;
    },
  },
  wait: {
    description: "Waits until it is stopped.",
    idempotent: true,
    run: async (_, job) => {
      job.progress({ progress: 0.5, message: "waiting", data: { worker } });
      await new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(new Error("aborted"))));
    },
  },
  draw: {
    description: "Draws a picture.",
    run: (_, job) => job.respond({ output: "a picture" }, [
      { type: "inline_data", mime_type: "image/png", data: Buffer.from("PNG").toString("base64") },
    ]),
  },
  who: {
    description: "Its call.",
    run: (_, { call }) => ({ run: call.run_id ?? "", call: call.call_id ?? "", round: call.round ?? 1 }),
  },
  visit: {
    description: "Calls a tool of the host.",
    parameters: object({ tool: text, arguments: { type: "object" } }),
    run: ({ tool, arguments: given }, job) => job.callHost(tool, given),
  },
  large: {
    description: "A result that is too large.",
    run: () => "x".repeat(connection.info.max_payload),
  },
};

const { host, username, password } = new URL(address);
const connection = await connect({
  servers: host,
  ...(username && { user: username, pass: password }),
  name: worker,
  maxReconnectAttempts: -1,
  reconnectTimeWait: 100,
  inboxPrefix: `windlass.v1.inbox.${session}`,
});
const running = new Map(); // by key
const results = new Map(); // by key, the oldest first
const waiting = []; // calls that wait for a place
let places = Number(maxRunning);
let leaving = false;
let reconnects = 0;

const publish = (subject, frame) => connection.publish(subject, JSON.stringify(frame));

function announce() {
  publish(announceSubject, {
    type: "announcement",
    worker,
    session,
    max_running: Number(maxRunning),
    running: running.size,
    tools: Object.entries(tools).map(([name, { run, ...described }]) => ({ name, ...described })),
  });
}

class Job {
  constructor(call, reply) {
    this.call = call;
    this.replies = [reply];
    this.stop = new AbortController();
    this.signal = this.stop.signal;
    this.deadline = call.seconds == null ? Infinity : Date.now() + call.seconds * 1000;
  }

  send(frame) {
    for (const reply of this.replies) publish(reply, frame);
  }

  progress(report) {
    this.send({ type: "progress", ...report });
  }

  respond(response, parts = []) {
    return { type: "result", response: { name: this.call.name, response, parts } };
  }

  failed(error, more) {
    return { ...this.respond({ error }), outcome: "error", ...more };
  }

  async callHost(name, given) {
    const { key, token } = this.call;
    if (!token) throw new Failure("the host has no tools");
    const frame = { type: "host_call", key, token, name, arguments: JSON.stringify(given) };
    const timeout = Math.min(this.deadline - Date.now(), 300_000);
    const answer = await connection.request(`windlass.v1.host.${session}`, JSON.stringify(frame), { timeout });
    const { type, reason, outcome = "ok", response } = answer.json();
    if (type === "refused") throw new Failure(reason);
    if (outcome !== "ok") throw new Failure(response.response.error);
    return response.response.output;
  }

  async run() {
    if (Date.now() >= this.deadline) return { type: "refused", reason: "its time has passed" };
    const late = Number.isFinite(this.deadline)
      ? setTimeout(() => this.stop.abort("late"), this.deadline - Date.now())
      : undefined;
    try {
      const value = await tools[this.call.name].run(JSON.parse(this.call.arguments), this);
      return value?.type === "result" ? value : this.respond({ output: value });
    } catch (error) {
      if (this.signal.reason === "late") return this.failed("it took too long", { outcome: "timeout" });
      if (this.signal.aborted) return this.failed("stopped", { outcome: "stopped" });
      return this.failed(error.message, error.more);
    } finally {
      clearTimeout(late);
    }
  }

  async start() {
    places -= 1;
    let answer = this.signal.aborted ? this.failed("stopped", { outcome: "stopped" }) : await this.run();
    places += 1;
    running.delete(this.call.key);
    const size = Buffer.byteLength(JSON.stringify(answer));
    if (size > connection.info.max_payload) answer = this.failed(`the result has ${size} bytes`);
    if (answer.type === "result" && answer.outcome !== "stopped" && !answer.retryable) {
      results.set(this.call.key, answer);
      if (results.size > rememberedResults) results.delete(results.keys().next().value);
    }
    this.send(answer);
    waiting.shift()?.start();
  }
}

function called(call, reply) {
  const job = running.get(call.key);
  if (job) {
    job.replies.push(reply);
    job.call = call;
  } else if (results.has(call.key)) {
    publish(reply, results.get(call.key));
  } else if (!(call.name in tools)) {
    publish(reply, { type: "refused", reason: `this worker has no '${call.name}'` });
  } else if (leaving || (places <= 0 && call.queue === false)) {
    publish(reply, { type: "busy" });
  } else {
    const job = new Job(call, reply);
    running.set(call.key, job);
    if (places > 0) job.start();
    else waiting.push(job);
  }
}

function onMessage(message) {
  const verb = message.subject.split(".").at(-1);
  if (verb === "ping") return publish(message.reply, { type: "pong", reconnects });
  let frame;
  try {
    frame = message.json();
    if ((frame.v ?? 1) !== 1) throw new Error(`unknown version ${frame.v}`);
    if (frame.type !== verb || typeof frame.key !== "string") throw new Error("not a valid message");
    if (verb === "call" && typeof frame.name !== "string") throw new Error("a call needs a name");
  } catch (error) {
    if (message.reply) publish(message.reply, { type: "refused", reason: `invalid message: ${error.message}` });
    return;
  }
  if (verb === "call" && message.reply) called(frame, message.reply);
  if (verb === "cancel") running.get(frame.key)?.stop.abort("cancelled");
}

async function leave() {
  if (leaving) return;
  leaving = true;
  publish(announceSubject, { type: "farewell", worker, session });
  for (const job of running.values()) job.stop.abort("leaving");
  while (running.size) await new Promise((resolve) => setTimeout(resolve, 5));
  await connection.drain();
  process.exit(0);
}

const subscribe = (subject, callback) =>
  connection.subscribe(subject, { callback: (error, message) => error || callback(message) });

subscribe(`windlass.v1.worker.${session}.${worker}.*`, onMessage);
subscribe("windlass.v1.hello.all", announce);
subscribe(`windlass.v1.hello.${session}`, announce);
subscribe(`windlass.v1.end.${session}`, leave);
announce();
await connection.flush();
setInterval(announce, 2000);
process.on("SIGTERM", leave);
console.log(worker);
for await (const status of connection.status()) {
  if (status.type === "reconnect") {
    reconnects += 1;
    announce();
  }
}
