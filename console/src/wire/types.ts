// Made by scripts/console_types.py of the gateway's OpenAPI document. Do not edit.

/** An OpenAI request. Other fields are passed to models that accept them. */
export type ChatCompletionRequest = {
  /** The name of a model; `GET /v1/models` lists them. */
  model: string;
  messages: Array<ChatMessage>;
  /** Client tools. Their calls are returned as `tool_calls`. */
  tools?: Array<ChatTool> | null;
  /** A forced choice applies until the call is made. It means a client tool if it allows one, else a server tool. */
  tool_choice?: ToolChoice | null;
  /** The older form of `tools`. */
  functions?: Array<ChatFunction> | null;
  /** The older form of `tool_choice`. */
  function_call?: (("auto" | "none") | {
    name: string;
  }) | null;
  parallel_tool_calls?: boolean | null;
  stream?: boolean | null;
  stream_options?: {
    include_usage?: boolean;
    /** Adds events of the gateway's tools to chunks, in the field `windlass`. The header `Accept: text/event-stream; events=windlass` has the same effect. */
    include_tool_events?: boolean;
  } | null;
  /** Whether the run continues after its client disconnects. */
  background?: boolean | null;
  /** Continues a stored chat, or starts it. The gateway needs a log of runs (`[runs]`). */
  chat_id?: string | null;
  /** The id of a run of the chat. The new run replaces it and all later runs of the chat. Only with `chat_id`. */
  replaces?: string | null;
  n?: 1 | null;
  temperature?: number | null;
  top_p?: number | null;
  top_k?: number | null;
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
  stop?: (string | Array<string>) | null;
  seed?: number | null;
  logprobs?: boolean | null;
  top_logprobs?: number | null;
  service_tier?: string | null;
  response_format?: ResponseFormat | null;
};

export type ChatMessage = ({
  role: "system" | "developer" | "user";
  content: string | Array<ContentPart>;
}) | ({
  role: "assistant";
  content?: (string | Array<ContentPart>) | null;
  tool_calls?: Array<ChatToolCall> | null;
  function_call?: {
    name: string;
    arguments?: string;
  } | null;
  reasoning_content?: string | null;
}) | ({
  role: "tool";
  tool_call_id: string;
  content: (string | Array<ContentPart>) | null;
}) | ({
  role: "function";
  name: string;
  content: (string | Array<ContentPart>) | null;
});

export type ContentPart = {
  type: "text";
  text: string;
} | {
  type: "image_url";
  image_url: {
    url: string;
  };
} | {
  type: "input_audio";
  input_audio: {
    data: string;
    format: string;
  };
} | {
  type: "file";
  file: Record<string, unknown>;
} | {
  type: string;
};

export type ChatToolCall = {
  id: string;
  type: "function";
  function: {
    name: string;
    arguments: string;
  };
};

export type ChatTool = {
  type: "function";
  function: ChatFunction;
};

export type ChatFunction = {
  name: string;
  description?: string | null;
  /** A JSON Schema of type `object`. */
  parameters?: Record<string, unknown> | null;
  strict?: boolean | null;
};

export type ToolChoice = ("auto" | "none" | "required") | {
  function: {
    name: string;
  };
  type?: "function";
} | ({
  type: "allowed_tools";
  allowed_tools: {
    mode: "auto" | "required";
    tools: Array<{
      function: {
        name: string;
      };
      type?: "function";
    }>;
  };
});

export type ResponseFormat = ({
  type: "text" | "json_object";
}) | ({
  type: "json_schema";
  json_schema: {
    schema: Record<string, unknown>;
    name?: string;
    strict?: boolean | null;
  };
});

/** The body of every error, and the last chunk of a stream that fails. */
export type Error = {
  error: {
    message: string;
    type: string;
    /** The invalid field of the request. */
    param: string | null;
    code: string | null;
  };
};

export type Model = {
  id: string;
  object: "model";
  created: number;
  owned_by: string;
  /** The gateway's settings for the model. */
  windlass: {
    tools: Array<string>;
    mode: Mode;
    max_rounds: number;
    sessions: Array<string>;
  };
};

export type Mode = "auto" | "native" | "emulated";

export type ModelList = {
  object: "list";
  data: Array<Model>;
};

export type ChatCompletion = {
  id: string;
  object: "chat.completion";
  created: number;
  model: string;
  choices: Array<{
    index: number;
    message: AssistantMessage;
    logprobs: Record<string, unknown> | null;
    finish_reason: FinishReason;
  }>;
  usage?: TokenUsage;
  service_tier?: string;
  system_fingerprint?: string;
};

export type AssistantMessage = {
  role: "assistant";
  content: string | null;
  refusal: string | null;
  tool_calls?: Array<ChatToolCall>;
  /** Replaces `tool_calls` if the request has `functions`. */
  function_call?: {
    name: string;
    arguments: string;
  };
  reasoning_content?: string;
  images?: Array<Record<string, unknown>>;
};

export type ChatCompletionChunk = {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  choices: Array<{
    index: number;
    delta: ChatDelta;
    logprobs: Record<string, unknown> | null;
    finish_reason: FinishReason | null;
  }>;
  usage?: TokenUsage | null;
  service_tier?: string;
  system_fingerprint?: string;
  windlass?: RunEvent;
};

export type ChatDelta = {
  role?: "assistant";
  content?: string | null;
  refusal?: string | null;
  reasoning_content?: string;
  images?: Array<Record<string, unknown>>;
  tool_calls?: Array<{
    index: number;
    id?: string;
    type?: "function";
    function?: {
      name?: string;
      arguments?: string;
    };
  }>;
  /** Replaces `tool_calls` if the request has `functions`. */
  function_call?: {
    name?: string;
    arguments?: string;
  };
};

export type FinishReason = "stop" | "tool_calls" | "length" | "content_filter" | "function_call";

/** The sum of all rounds. */
export type TokenUsage = {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details?: {
    cached_tokens: number;
  };
  completion_tokens_details?: {
    reasoning_tokens: number;
  };
};

export type Run = {
  id: string;
  object: "run";
  created: number;
  ended: number | null;
  model: string;
  status: "running" | "ended" | "failed";
  phase: "awaiting_model_call" | "executing_tools" | "awaiting_final_response" | "ended";
  /** Null if it is unknown. */
  mode: Mode | null;
  /** The number of events so far. */
  events: number;
  /** The first words of the prompt. */
  title: string;
  /** The stored chat that the run belongs to. */
  chat_id: string | null;
  stop_reason?: ("answer" | "calls" | "max_rounds" | "repetition" | "length" | "content_filter" | "malformed_call" | "deadline" | "stopped" | "error") | null;
  error?: {
    message: string;
    type: string;
    param?: string | null;
  };
  response?: ChatCompletion;
  summary?: RunSummary;
};

/** Figures of a run so far. */
export type RunSummary = {
  seconds: number;
  rounds: number;
  input_tokens: number;
  output_tokens: number;
  tools: Record<string, {
    calls: number;
    failures: number;
    seconds: number;
  }>;
};

export type RunList = {
  object: "list";
  data: Array<Run>;
};

export type Chat = {
  id: string;
  object: "chat";
  created: number;
  updated: number;
  title: string;
  model: string;
  status: "running" | "ended";
  /** The id of the chat's active run. */
  running: string | null;
  runs: number;
  /** The messages in OpenAI's format. */
  messages?: Array<Record<string, unknown>>;
  run_ids?: Array<string>;
};

export type ChatList = {
  object: "list";
  data: Array<Chat>;
};

export type Tool = {
  name: string;
  object: "tool";
  description: string;
  /** A JSON Schema. */
  parameters: Record<string, unknown>;
  /** Whether each call needs approval. */
  approve: boolean;
  idempotent: boolean;
  /** The models that offer the tool. */
  models: Array<string>;
  /** `gateway`, `mcp:SERVER` or `worker:SESSION`. */
  origin: string;
  /** The calls of this key: its newest 200 runs and its manual calls. */
  calls: {
    count: number;
    failures: number;
    last: Array<LastCall>;
  };
};

export type ToolList = {
  object: "list";
  data: Array<Tool>;
};

export type LastCall = {
  /** Null for a manual call. */
  run_id: string | null;
  call_id: string;
  time: number;
  seconds: number;
  outcome: Outcome;
  arguments: Record<string, unknown> | string;
  /** Shortened if it is long. */
  response: Record<string, unknown> | null;
  by_hand: boolean;
};

export type ToolAnswer = {
  call_id: string;
  name: string;
  outcome: Outcome;
  response: Record<string, unknown>;
  parts: Array<InlineData | FileData>;
  seconds: number;
  effect_unknown: boolean;
  progress: Array<{
    time: number;
    progress: number | null;
    message: string | null;
    data: unknown;
  }>;
  /** Whether the tool crashed; its traceback is in the gateway's log. */
  crashed?: boolean;
};

export type Outcome = "ok" | "error" | "invalid_arguments" | "unknown_tool" | "timeout" | "denied" | "stopped" | "interrupted" | "not_run";

export type Deleted = {
  id: string;
  object: "run.deleted" | "chat.deleted";
  deleted: true;
};

export type Health = {
  status: "ok" | "shutting down";
};

/** A piece of text. A delta with a signature is a separate part: signatures never move. */
export type TextDelta = {
  event: "text_delta";
  text: string;
  signature?: string | null;
  extra?: Record<string, unknown> | null;
  logprobs?: Record<string, unknown> | null;
  about?: Record<string, unknown> | null;
  seq: number;
  time: number;
  type: "content";
  done: false;
};

export type ThoughtDelta = {
  event: "thought_delta";
  text: string;
  signature?: string | null;
  extra?: Record<string, unknown> | null;
  about?: Record<string, unknown> | null;
  seq: number;
  time: number;
  type: "thought";
  done: false;
};

/** A whole part that is not streamed in pieces: an image, or a provider's own kind. It has no text, so its type is not `content`. */
export type PartReceived = {
  event: "part_received";
  part: Text | Thought | InlineData | FileData | FunctionCall | FunctionResponse | Opaque;
  seq: number;
  time: number;
  type: "control";
  done: false;
};

export type Text = {
  type: "text";
  text: string;
  signature?: string | null;
  extra?: Record<string, unknown>;
};

/** The model's reasoning, which is not part of its answer. */
export type Thought = {
  type: "thought";
  text: string;
  signature?: string | null;
  extra?: Record<string, unknown>;
};

/** An image or other media, as bytes. */
export type InlineData = {
  type: "inline_data";
  data: string;
  mime_type: string;
  extra?: Record<string, unknown>;
};

/** Media that the provider fetches from a URI. */
export type FileData = {
  type: "file_data";
  uri: string;
  mime_type?: string | null;
  extra?: Record<string, unknown>;
};

/** A call by the model. The arguments stay the JSON text that the model wrote. */
export type FunctionCall = {
  type: "function_call";
  name: string;
  json?: string;
  id?: string;
  signature?: string | null;
  extra?: Record<string, unknown>;
};

/** The result of a call: `{"output": value}`, `{"error": text}`, or any other object. */
export type FunctionResponse = {
  type: "function_response";
  name: string;
  response: Record<string, unknown>;
  id?: string;
  parts?: Array<InlineData | FileData>;
  extra?: Record<string, unknown>;
};

/** A part of a kind that Windlass does not know, stored unchanged for its provider. */
export type Opaque = {
  type: "opaque";
  provider: string;
  data: Record<string, unknown>;
  extra?: Record<string, unknown>;
};

/** The model starts call number `index` of this turn (0, 1, ...). */
export type ToolCallStarted = {
  event: "tool_call_started";
  index: number;
  id: string;
  name: string;
  about?: Record<string, unknown> | null;
  seq: number;
  time: number;
  type: "tool_call";
  done: false;
};

/** The next piece of the call's argument text. */
export type ToolCallDelta = {
  event: "tool_call_delta";
  index: number;
  json: string;
  seq: number;
  time: number;
  type: "tool_call";
  done: false;
};

/** The call is complete: `call.json` has all of its pieces. */
export type ToolCallEnded = {
  event: "tool_call_ended";
  index: number;
  call: FunctionCall;
  seq: number;
  time: number;
  type: "tool_call";
  done: false;
};

/** The last event of every turn. The run may continue. */
export type TurnEnded = {
  event: "turn_ended";
  finish: "content_filter" | "length" | "malformed_call" | "other" | "stop" | "tool_calls";
  usage?: Usage;
  detail?: string | null;
  message_extra?: Record<string, unknown> | null;
  about?: Record<string, unknown> | null;
  logprobs?: Record<string, unknown> | null;
  seq: number;
  time: number;
  type: "control";
  done: false;
};

/** Token counts from the provider. `input_tokens` include the cached tokens. */
export type Usage = {
  input_tokens?: number;
  output_tokens?: number;
  total_tokens?: number;
  cached_tokens?: number;
  thought_tokens?: number;
};

export type RunStarted = {
  event: "run_started";
  run_id: string;
  model: string;
  messages: Array<Message>;
  max_rounds?: number | null;
  seq: number;
  time: number;
  type: "control";
  done: false;
};

/** One message of a conversation. The role `model` is read as `assistant`. `dict=True` gives each message a `__dict__` for the cache of `encoded_once`. */
export type Message = {
  role: "assistant" | "system" | "tool" | "user";
  parts: Array<Text | Thought | InlineData | FileData | FunctionCall | FunctionResponse | Opaque>;
  extra?: Record<string, unknown>;
};

/** A process resumed the interrupted run. */
export type RunResumed = {
  event: "run_resumed";
  attempt: number;
  seq: number;
  time: number;
  type: "control";
  done: false;
};

/** The run sends a request to the model. The first round is 1. */
export type RoundStarted = {
  event: "round_started";
  round: number;
  phase: "awaiting_final_response" | "awaiting_model_call" | "ended" | "executing_tools";
  tools_off?: boolean;
  seq: number;
  time: number;
  type: "control";
  done: false;
};

/** The run repeats its request to the model. Discard all earlier events of this round. */
export type RoundRestarted = {
  event: "round_restarted";
  round: number;
  phase: "awaiting_final_response" | "awaiting_model_call" | "ended" | "executing_tools";
  tools_off?: boolean;
  seq: number;
  time: number;
  type: "control";
  done: false;
};

/** A sentence for the user about what the run does. */
export type Status = {
  event: "status";
  message: string;
  seq: number;
  time: number;
  type: "status";
  done: false;
};

export type ToolRunStarted = {
  event: "tool_run_started";
  call: FunctionCall;
  round: number;
  seq: number;
  time: number;
  type: "tool_call";
  done: false;
};

/** A report of a running tool: a fraction of the work, a message, or any JSON value. */
export type ToolRunProgress = {
  event: "tool_run_progress";
  call_id: string;
  name: string;
  progress?: number | null;
  message?: string | null;
  data?: unknown;
  seq: number;
  time: number;
  type: "progress";
  done: false;
};

/** The full result of a call; the model's copy may be shorter. */
export type ToolRunEnded = {
  event: "tool_run_ended";
  response: FunctionResponse;
  outcome: "denied" | "error" | "interrupted" | "invalid_arguments" | "not_run" | "ok" | "stopped" | "timeout" | "unknown_tool";
  seconds?: number;
  attempts?: number;
  cached?: boolean;
  effect_unknown?: boolean;
  crashed?: boolean;
  seq: number;
  time: number;
  type: "tool_result";
  done: false;
};

export type ApprovalRequested = {
  event: "approval_requested";
  call: FunctionCall;
  reason?: string | null;
  seq: number;
  time: number;
  type: "control";
  done: false;
};

export type ApprovalResolved = {
  event: "approval_resolved";
  call_id: string;
  approved: boolean;
  arguments?: Record<string, unknown> | null;
  reason?: string | null;
  seq: number;
  time: number;
  type: "control";
  done: false;
};

/** The last event of every run. */
export type RunEnded = {
  event: "run_ended";
  reason: "answer" | "calls" | "content_filter" | "deadline" | "error" | "length" | "malformed_call" | "max_rounds" | "repetition" | "stopped";
  usage?: Usage;
  rounds?: number;
  error?: string | null;
  seq: number;
  time: number;
  type: "control";
  done: true;
};

/** The body of `approve`. */
export type Decision = {
  call_id: string;
  approved?: boolean;
  arguments?: Record<string, unknown> | null;
  reason?: string | null;
};

/** The body of a call. */
export type HandCall = {
  arguments?: Record<string, unknown>;
  approved?: boolean;
};

/** The contents of an export file. */
export type Export = {
  format: string;
  version: number;
  run: RunRecord;
  messages: Array<Record<string, unknown>>;
  rounds: Array<ToldRound>;
  resumed: Array<number>;
  usage: Usage;
  events: Array<TextDelta | ThoughtDelta | PartReceived | ToolCallStarted | ToolCallDelta | ToolCallEnded | TurnEnded | RunStarted | RunResumed | RoundStarted | RoundRestarted | Status | ToolRunStarted | ToolRunProgress | ToolRunEnded | ApprovalRequested | ApprovalResolved | RunEnded>;
};

/** The metadata of a run. */
export type RunRecord = {
  id: string;
  model: string;
  created: number;
  number?: number;
  owner?: string;
  chat?: string;
  title?: string;
  origin?: Record<string, unknown>;
  ended?: number | null;
  reason?: ("answer" | "calls" | "content_filter" | "deadline" | "error" | "length" | "malformed_call" | "max_rounds" | "repetition" | "stopped") | null;
  error?: string | null;
  events?: number;
  size?: number;
};

/** One request to the model, the model's turn, and its calls. */
export type ToldRound = {
  number: number;
  started: number;
  ended?: number | null;
  superseded?: boolean;
  text?: string;
  thoughts?: string;
  finish?: ("content_filter" | "length" | "malformed_call" | "other" | "stop" | "tool_calls") | null;
  usage?: Usage;
  calls?: Array<ToldCall>;
};

/** A call and its result. Times are Unix seconds. */
export type ToldCall = {
  id: string;
  name: string;
  arguments: Record<string, unknown> | string;
  approval?: ToldApproval | null;
  started?: number | null;
  ended?: number | null;
  seconds?: number;
  outcome?: ("denied" | "error" | "interrupted" | "invalid_arguments" | "not_run" | "ok" | "stopped" | "timeout" | "unknown_tool") | null;
  response?: Record<string, unknown> | null;
  attempts?: number;
  cached?: boolean;
  effect_unknown?: boolean;
  crashed?: boolean;
};

/** An approval of a call. Without `answered`, it is pending or was never decided. */
export type ToldApproval = {
  asked: number;
  answered?: number | null;
  approved?: boolean | null;
  arguments?: Record<string, unknown> | null;
  reason?: string | null;
};

export type RunEvent = TextDelta | ThoughtDelta | PartReceived | ToolCallStarted | ToolCallDelta | ToolCallEnded | TurnEnded | RunStarted | RunResumed | RoundStarted | RoundRestarted | Status | ToolRunStarted | ToolRunProgress | ToolRunEnded | ApprovalRequested | ApprovalResolved | RunEnded;
