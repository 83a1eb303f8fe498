// The gateway's endpoints, as functions.
import type { Chat, ChatCompletionRequest, ChatList, Decision, HandCall, Model, ModelList, Run, RunEvent, RunList, Tool, ToolAnswer, ToolList } from "./types";
import { accessKey, locked } from "./access";
import { learnTime } from "./clock";
import { EventParser } from "./sse";

/** An error response of the gateway. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code: string | null = null,
    /** The seconds after which the gateway expects another attempt, or null. */
    readonly retryAfter: number | null = null,
    /** The id of the request in the gateway's log. */
    readonly requestId: string | null = null,
  ) {
    super(message);
  }
}

/** What happened, when to retry, and where the details are. */
export function refusal(error: unknown): string {
  if (!(error instanceof ApiError)) return "Cannot reach the gateway. Check that it is running, then try again.";
  const { message, status, retryAfter, requestId } = error;
  const when = retryAfter ? ` Try again in ${retryAfter === 1 ? "1 second" : `${retryAfter} seconds`}.` : "";
  const details = status >= 500 && requestId ? ` For details, see the gateway's log, request id ${requestId}.` : "";
  return `${message.replace(/\s*$/, "")}${/[.!?]\s*$/.test(message) ? "" : "."}${when}${details}`;
}

/** Throws `ApiError` for an error response, and `TypeError` if the gateway cannot be reached. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = accessKey();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  const asked = Date.now();
  const response = await fetch(path, { ...init, headers });
  learnTime(response.headers.get("Date"), asked, Date.now());
  if (response.ok) return response;
  // A key may expire at any time, so every request can bring up the key form.
  if (response.status === 401) locked.value = true;
  const said = await response.json().catch(() => null);
  const error = said?.error ?? {};
  throw new ApiError(
    response.status,
    error.message ?? `The gateway returned status ${response.status}.`,
    error.code ?? null,
    Number.parseInt(response.headers.get("Retry-After") ?? "", 10) || null,
    response.headers.get("X-Request-Id"),
  );
}

async function json<T>(path: string, init?: RequestInit): Promise<T> {
  return (await request(path, init)).json() as Promise<T>;
}

function post<T>(path: string, body: unknown, init: RequestInit = {}): Promise<T> {
  return json<T>(path, { ...init, method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

export const api = {
  models: async (): Promise<Model[]> => (await json<ModelList>("/v1/models")).data,
  chats: async (search = ""): Promise<Chat[]> => (await json<ChatList>(`/v1/chats${search && `?q=${encodeURIComponent(search)}`}`)).data,
  chat: (id: string): Promise<Chat> => json(`/v1/chats/${encodeURIComponent(id)}`),
  renameChat: (id: string, title: string): Promise<Chat> => post(`/v1/chats/${encodeURIComponent(id)}`, { title }),
  deleteChat: (id: string): Promise<unknown> => json(`/v1/chats/${encodeURIComponent(id)}`, { method: "DELETE" }),
  runs: async (query: URLSearchParams): Promise<Run[]> => (await json<RunList>(`/v1/runs?${query}`)).data,
  run: (id: string): Promise<Run> => json(`/v1/runs/${encodeURIComponent(id)}`),
  start: (body: ChatCompletionRequest): Promise<Run> => post("/v1/runs", body),
  stop: (id: string): Promise<Run> => post(`/v1/runs/${encodeURIComponent(id)}/stop`, {}),
  approve: (id: string, decision: Decision): Promise<unknown> => post(`/v1/runs/${encodeURIComponent(id)}/approve`, decision),
  tools: async (): Promise<Tool[]> => (await json<ToolList>("/v1/tools")).data,
  tool: (name: string): Promise<Tool> => json(`/v1/tools/${encodeURIComponent(name)}`),
  callTool: (name: string, call: HandCall, signal: AbortSignal): Promise<ToolAnswer> => post(`/v1/tools/${encodeURIComponent(name)}/call`, call, { signal }),
  deleteRun: (id: string): Promise<unknown> => json(`/v1/runs/${encodeURIComponent(id)}`, { method: "DELETE" }),
};

/** The events of a run after a number, in batches as they arrive. An empty batch is a keep-alive. */
export async function* eventsOf(runId: string, after: number, signal: AbortSignal): AsyncGenerator<RunEvent[]> {
  const response = await request(`/v1/runs/${encodeURIComponent(runId)}/events?after=${after}`, { signal });
  if (!response.body) return;
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield parser.feed(value).map((event) => JSON.parse(event.data) as RunEvent);
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
