// Made by scripts/console_types.py of the gateway's OpenAPI document. Do not edit.

export type AllowedResponseTools = {
  type: "allowed_tools";
  mode: "auto" | "required";
  tools: Array<ChosenTool>;
};

export type AllowedToolNames = {
  mode: "auto" | "required";
  tools: Array<NamedFunction>;
};

export type AllowedTools = {
  type: "allowed_tools";
  allowed_tools: AllowedToolNames;
};

export type AnswerContent = {
  role: "model";
  parts: Array<GeminiPart>;
};

/** A tool that Anthropic runs or defines, such as `web_search_20250305`. It is skipped. */
export type AnthropicHostedTool = {
  type: string;
};

export type AnthropicInputMessage = {
  role: "user" | "assistant" | "system";
  content: string | Array<ContentBlock>;
};

export type AnthropicMessage = {
  id: string;
  type: "message";
  role: "assistant";
  model: string;
  content: Array<Record<string, unknown>>;
  stop_reason: string | null;
  stop_sequence: string | null;
  usage: MessageUsage;
};

/** The decision on a call that waits for approval. */
export type ApprovalDecision = {
  type: "mcp_approval_response";
  approval_request_id: string;
  approve: boolean;
  reason?: string | null;
};

export type AssistantMessage = {
  role: "assistant";
  content: string | null;
  refusal: string | null;
  tool_calls?: Array<ChatToolCall>;
  /** Replaces `tool_calls` if the request has `functions`. */
  function_call?: CalledFunction;
  reasoning_content?: string;
  images?: Array<Record<string, unknown>>;
};

export type AudioPart = {
  type: "input_audio";
  input_audio: InputAudio;
};

export type CachedInput = {
  cached_tokens: number;
};

export type CachedTokens = {
  cached_tokens: number;
};

export type CallDelta = {
  index: number;
  id?: string;
  type?: "function";
  function?: FunctionDelta;
};

export type CalledFunction = {
  name: string;
  arguments: string;
};

export type Candidate = {
  content: AnswerContent;
  finishReason?: string;
  index: 0;
  logprobsResult?: Record<string, unknown>;
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
  /** The text around the first match of a search, unless the title matches. */
  match?: string;
};

export type ChatChoice = {
  index: number;
  message: AssistantMessage;
  logprobs: Record<string, unknown> | null;
  finish_reason: FinishReason;
};

export type ChatCompletion = {
  id: string;
  object: "chat.completion";
  created: number;
  model: string;
  choices: Array<ChatChoice>;
  usage?: TokenUsage;
  service_tier?: string;
  system_fingerprint?: string;
};

export type ChatCompletionChunk = {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  choices: Array<ChunkChoice>;
  usage?: TokenUsage | null;
  service_tier?: string;
  system_fingerprint?: string;
  windlass?: RunEvent;
};

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
  function_call?: ("auto" | "none") | FunctionName | null;
  parallel_tool_calls?: boolean | null;
  stream?: boolean | null;
  stream_options?: StreamOptions | null;
  /** Whether the run continues after its client disconnects. */
  background?: boolean | null;
  /** Continues a stored chat, or starts it. The gateway needs a log of runs (`[runs]`). */
  chat_id?: string | null;
  /** The id of a run of the chat. The new run replaces it and all later runs of the chat. Only with `chat_id`. */
  replaces?: string | null;
  /** The budget of tokens of the whole run. It can only lower the model's own. */
  max_tokens_total?: number | null;
  /** The budget of the whole run's cost. The model needs prices. */
  max_cost?: number | null;
  /** The time limit of the whole run, in seconds. */
  timeout?: number | null;
  n?: 1 | null;
  temperature?: number | null;
  top_p?: number | null;
  top_k?: number | null;
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
  stop?: string | Array<string> | null;
  seed?: number | null;
  logprobs?: boolean | null;
  top_logprobs?: number | null;
  service_tier?: string | null;
  response_format?: ResponseFormat | null;
};

export type ChatDeleted = {
  id: string;
  object: "chat.deleted";
  deleted: true;
};

export type ChatDelta = {
  role?: "assistant";
  content?: string | null;
  refusal?: string | null;
  reasoning_content?: string;
  images?: Array<Record<string, unknown>>;
  tool_calls?: Array<CallDelta>;
  /** Replaces `tool_calls` if the request has `functions`. */
  function_call?: FunctionDelta;
};

export type ChatFunction = {
  name: string;
  description?: string | null;
  /** A JSON Schema of type `object`. */
  parameters?: Record<string, unknown> | null;
  strict?: boolean | null;
};

export type ChatList = {
  object: "list";
  data: Array<Chat>;
};

export type ChatMessage = PromptMessage | EarlierAnswer | ToolMessage | FunctionMessage;

export type ChatTool = {
  type: "function";
  function: ChatFunction;
};

export type ChatToolCall = {
  id: string;
  type: "function";
  function: CalledFunction;
};

export type ChosenTool = {
  type: "function" | "custom";
  name: string;
};

export type ChunkChoice = {
  index: number;
  delta: ChatDelta;
  logprobs: Record<string, unknown> | null;
  finish_reason: FinishReason | null;
};

/** The result of clearing the cache of a model. */
export type Cleared = {
  model: string;
  /** How many pages had declarations. */
  cleared: number;
};

export type CompactedResponse = {
  id: string;
  object: "response.compaction";
  created_at: number;
  /** One opaque item. Send it at the start of the next `input`. */
  output: Array<ResponseItem>;
  usage: ResponseUsage;
};

export type ContentBlock = TextBlock | MediaBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | OtherBlock;

export type ContentPart = TextPart | ImagePart | AudioPart | FilePart | OtherPart;

export type Conversation = {
  id: string;
  object: "conversation";
  created_at: number;
  metadata: Record<string, unknown>;
};

export type ConversationDeleted = {
  id: string;
  object: "conversation.deleted";
  deleted: true;
};

export type ConversationReference = {
  id: string;
};

export type ConversationUpdate = {
  metadata: Record<string, string>;
};

export type CountRequest = {
  model: string;
  messages: Array<AnthropicInputMessage>;
  system?: string | Array<TextBlock>;
  tools?: Array<MessageTool | AnthropicHostedTool>;
};

export type CountTokensRequest = CountedContents | CountedRequest;

export type CountTokensResponse = {
  /** An estimate. */
  totalTokens: number;
};

export type CountedContents = {
  contents: Array<GeminiContent>;
};

export type CountedRequest = {
  generateContentRequest: GenerateContentRequest;
};

/** A client tool whose input is free text. */
export type CustomTool = {
  type: "custom";
  name: string;
  description?: string | null;
  format?: Record<string, unknown> | null;
};

export type EarlierAnswer = {
  role: "assistant";
  content?: string | Array<ContentPart> | null;
  tool_calls?: Array<ChatToolCall> | null;
  function_call?: LegacyCall | null;
  reasoning_content?: string | null;
};

/** The body of every error, and the last chunk of a stream that fails. */
export type Error = {
  error: ErrorFields;
};

export type ErrorFields = {
  message: string;
  type: string;
  /** The invalid field of the request. */
  param: string | null;
  code: string | null;
};

export type FilePart = {
  type: "file";
  file: Record<string, unknown>;
};

export type FinishReason = "stop" | "tool_calls" | "length" | "content_filter" | "function_call";

export type FunctionCallingConfig = {
  mode?: "AUTO" | "ANY" | "NONE" | "VALIDATED";
  allowedFunctionNames?: Array<string>;
};

export type FunctionDelta = {
  name?: string;
  arguments?: string;
};

/** The older form of a result. */
export type FunctionMessage = {
  role: "function";
  name: string;
  content: string | Array<ContentPart> | null;
};

export type FunctionName = {
  name: string;
};

export type GeminiBlob = {
  mimeType: string;
  data: string;
};

export type GeminiBlobPart = {
  inlineData: GeminiBlob;
};

export type GeminiCall = {
  /** Clients may omit it; the gateway then reads it from the signature. */
  id?: string;
  name: string;
  args?: Record<string, unknown>;
};

export type GeminiCallPart = {
  functionCall: GeminiCall;
  /** Opaque; the client returns it unchanged. */
  thoughtSignature?: string;
};

export type GeminiContent = {
  role?: "user" | "model";
  parts: Array<GeminiPart>;
};

/** The body of every error, and the end of a stream that fails. */
export type GeminiError = {
  error: GeminiErrorFields;
};

export type GeminiErrorFields = {
  code: number;
  message: string;
  status: string;
  details: Array<Record<string, unknown>>;
};

export type GeminiFile = {
  mimeType?: string;
  fileUri: string;
};

export type GeminiFilePart = {
  fileData: GeminiFile;
};

export type GeminiFunction = {
  name: string;
  description?: string | null;
  /** A schema in Google's form. */
  parameters?: Record<string, unknown> | null;
  /** A JSON Schema of type `object`. */
  parametersJsonSchema?: Record<string, unknown> | null;
};

export type GeminiInstruction = {
  parts: Array<GeminiTextPart>;
};

export type GeminiModel = {
  /** `models/NAME` */
  name: string;
  baseModelId: string;
  version: string;
  displayName: string;
  description: string;
  supportedGenerationMethods: Array<string>;
};

export type GeminiModelList = {
  models: Array<GeminiModel>;
};

export type GeminiPart = GeminiTextPart | GeminiBlobPart | GeminiFilePart | GeminiCallPart | GeminiResultPart;

export type GeminiResult = {
  /** Without it, the result belongs to the first open call of its name. */
  id?: string;
  name: string;
  response: Record<string, unknown>;
};

export type GeminiResultPart = {
  functionResponse: GeminiResult;
};

export type GeminiTextPart = {
  text: string;
  thought?: boolean;
  /** Opaque; the client returns it unchanged. */
  thoughtSignature?: string;
};

export type GeminiTool = {
  /** Client tools. Tools that Google runs, such as `googleSearch`, are passed to its models. */
  functionDeclarations?: Array<GeminiFunction>;
};

/** The sum of all rounds. */
export type GeminiUsage = {
  promptTokenCount: number;
  candidatesTokenCount: number;
  totalTokenCount: number;
  cachedContentTokenCount?: number;
  thoughtsTokenCount?: number;
};

/** A request of Google's generateContent. Other fields are passed to models of Google. */
export type GenerateContentRequest = {
  contents: Array<GeminiContent>;
  systemInstruction?: GeminiInstruction | null;
  tools?: Array<GeminiTool> | null;
  toolConfig?: ToolConfig | null;
  generationConfig?: GenerationConfig | null;
};

/** An answer, or a chunk of a stream. */
export type GenerateContentResponse = {
  candidates: Array<Candidate>;
  usageMetadata?: GeminiUsage;
  modelVersion: string;
  /** The id of the run. */
  responseId: string;
};

/** Other fields are passed to models of Google. */
export type GenerationConfig = {
  temperature?: number | null;
  topP?: number | null;
  topK?: number | null;
  maxOutputTokens?: number | null;
  stopSequences?: Array<string> | null;
  seed?: number | null;
  presencePenalty?: number | null;
  frequencyPenalty?: number | null;
  responseLogprobs?: boolean | null;
  logprobs?: number | null;
  candidateCount?: 1 | null;
  responseMimeType?: string | null;
  responseSchema?: Record<string, unknown> | null;
  responseJsonSchema?: Record<string, unknown> | null;
  thinkingConfig?: ThinkingConfig | null;
};

export type Health = {
  status: "ok";
};

/** A tool that the model's provider runs. The gateway skips it. */
export type HostedTool = {
  type: string;
};

export type ImagePart = {
  type: "image_url";
  image_url: ImageUrl;
};

export type ImageUrl = {
  url: string;
};

export type IncompleteDetails = {
  reason: string;
};

export type InputAudio = {
  data: string;
  format: string;
};

/** A call of a client tool in an earlier turn. */
export type InputCall = {
  type: "function_call";
  call_id: string;
  name: string;
  arguments: string;
  namespace?: string | null;
};

/** The result of a call. */
export type InputCallOutput = {
  type: "function_call_output" | "custom_tool_call_output";
  call_id: string;
  output: string | (Array<InputText | InputImage | InputFile | InputFileUrl>);
};

export type InputFile = {
  type: "input_file";
  /** A data URL, or base64. */
  file_data: string;
  filename?: string | null;
};

export type InputFileUrl = {
  type: "input_file";
  file_url: string;
};

export type InputImage = {
  type: "input_image";
  image_url: string;
};

export type InputItem = InputMessage | InputCall | InputCallOutput | ApprovalDecision | OtherInputItem;

export type InputMessage = {
  type?: "message";
  role: "user" | "assistant" | "system" | "developer";
  content: string | (Array<InputText | InputImage | InputFile | InputFileUrl>);
};

export type InputText = {
  type: "input_text" | "output_text";
  text: string;
};

export type InputTokens = {
  object: "response.input_tokens";
  input_tokens: number;
};

export type ItemList = {
  object: "list";
  data: Array<ResponseItem>;
  first_id: string | null;
  last_id: string | null;
  has_more: boolean;
};

export type JsonSchema = {
  schema: Record<string, unknown>;
  name?: string;
  strict?: boolean | null;
};

export type JsonSchemaFormat = {
  type: "json_schema";
  json_schema: JsonSchema;
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

/** The older form of a call. */
export type LegacyCall = {
  name: string;
  arguments?: string;
};

/** An MCP server. The gateway runs its tools if `[responses] mcp_hosts` allows its host. */
export type McpServer = {
  type: "mcp";
  server_label: string;
  server_url: string;
  authorization?: string | null;
  headers?: Record<string, string> | null;
  allowed_tools?: Array<string> | Record<string, unknown> | null;
  require_approval?: ("always" | "never") | Record<string, unknown> | null;
};

/** An image or a document; its source is `base64`, `url`, `text` or `file`. */
export type MediaBlock = {
  type: "image" | "document";
  source: Record<string, unknown>;
};

/** An event of a stream, such as `message_start` or `content_block_delta`. */
export type MessageEvent = {
  type: string;
};

export type MessageRequest = {
  model: string;
  messages: Array<AnthropicInputMessage>;
  system?: string | Array<TextBlock>;
  tools?: Array<MessageTool | AnthropicHostedTool>;
  max_tokens: number;
  stream?: boolean;
  tool_choice?: MessageToolChoice;
  temperature?: number;
  top_p?: number;
  top_k?: number;
  stop_sequences?: Array<string>;
  thinking?: Record<string, unknown>;
  output_config?: Record<string, unknown>;
};

/** A tool of the client. */
export type MessageTool = {
  name: string;
  description?: string;
  input_schema: Record<string, unknown>;
  type?: "custom" | null;
};

export type MessageToolChoice = Record<string, unknown>;

export type MessageUsage = {
  input_tokens: number;
  output_tokens: number;
};

export type MessagesError = {
  type: "error";
  error: MessagesErrorDetail;
};

export type MessagesErrorDetail = {
  type: string;
  message: string;
};

export type Mode = "auto" | "native" | "emulated";

export type Model = {
  id: string;
  object: "model";
  created: number;
  owned_by: string;
  windlass: ModelSettings;
};

export type ModelList = {
  object: "list";
  data: Array<Model>;
};

/** The gateway's settings for the model. */
export type ModelSettings = {
  /** The provider and the model behind the name. */
  target: string;
  /** The model's own name, for people. */
  title: string;
  tools: Array<string>;
  mode: Mode;
  max_rounds: number;
  sessions: Array<string>;
  /** `loading`: the weights of a local model. `reading`: its instructions and tools. Requests are accepted in every status and wait for the model. */
  status: "ready" | "loading" | "reading";
  /** About how many seconds it takes until a model is ready; null if it is ready or unknown. */
  ready_in: number | null;
  /** Seconds that a call waits for approval; then it is denied. */
  approval_timeout: number;
  /** The kinds of parts besides text that a message may have. */
  attachments: Array<"image" | "audio" | "file" | "other">;
  /** Prompts to begin with: the configured ones, or some that suit the tools. */
  examples: Array<string>;
};

export type NamedFunction = {
  type?: "function";
  function: FunctionName;
};

export type NewConversation = {
  items?: Array<InputItem> | null;
  metadata?: Record<string, string> | null;
};

export type NewItems = {
  items: Array<InputItem>;
};

export type NotReady = {
  /** `shutting down`, or what the gateway cannot use. */
  status: string;
};

/** A block of any other kind. A model of Anthropic gets it unchanged. */
export type OtherBlock = {
  type: string;
};

/** Reasoning, compaction, a reference to a stored item, or an item of a hosted tool. */
export type OtherInputItem = {
  type: string;
};

/** A type of part that is specific to the model's provider. */
export type OtherPart = {
  type: string;
};

export type Outcome = "ok" | "error" | "invalid_arguments" | "unknown_tool" | "timeout" | "denied" | "stopped" | "interrupted" | "not_run";

export type PlainTextFormat = {
  type: "text" | "json_object";
};

export type PromptMessage = {
  role: "system" | "developer" | "user";
  content: string | Array<ContentPart>;
};

export type ReasoningOptions = {
  effort?: string | null;
  summary?: string | null;
};

export type ReasoningOutput = {
  reasoning_tokens: number;
};

export type ReasoningTokens = {
  reasoning_tokens: number;
};

/** A response. The fields of its request are repeated. */
export type Response = {
  id: string;
  object: "response";
  created_at: number;
  completed_at: number | null;
  status: ResponseStatus;
  model: string;
  output: Array<ResponseItem>;
  error: ResponseFailure | null;
  incomplete_details: IncompleteDetails | null;
  usage: ResponseUsage | null;
  instructions: string | null;
  previous_response_id: string | null;
  conversation?: ConversationReference;
  tools: Array<Record<string, unknown>>;
  tool_choice: string | Record<string, unknown>;
  store: boolean;
  background: boolean;
  metadata: Record<string, unknown>;
};

export type ResponseDeleted = {
  id: string;
  object: "response";
  deleted: true;
};

/** An event of a response. `response.*` events have further fields by their type. */
export type ResponseEvent = {
  type: string;
  sequence_number: number;
  response?: Response;
  item?: ResponseItem;
  output_index?: number;
  item_id?: string;
  delta?: string;
};

export type ResponseFailure = {
  code: string;
  message: string;
};

export type ResponseFormat = SimpleFormat | JsonSchemaFormat;

/** A client tool. Its calls are returned as `function_call` items. */
export type ResponseFunctionTool = {
  type: "function";
  name: string;
  description?: string | null;
  parameters?: Record<string, unknown> | null;
  strict?: boolean | null;
};

/** The part of a request that makes up the conversation. */
export type ResponseInput = {
  /** The name of a model; `GET /v1/models` lists them. */
  model: string;
  input: string | Array<InputItem>;
  /** A system message for this response only. */
  instructions?: string | null;
  /** Continues the conversation of a stored response. Excludes `conversation`. */
  previous_response_id?: string | null;
  /** Continues a stored conversation. The gateway needs a log of runs (`[runs]`). */
  conversation?: string | ConversationReference | null;
  tools?: Array<ResponseTool> | null;
  tool_choice?: ResponseToolChoice | null;
  parallel_tool_calls?: boolean | null;
  text?: TextOptions | null;
  reasoning?: ReasoningOptions | null;
  truncation?: string | null;
};

/** An item of the output or the input: a message, reasoning, a call or its result. */
export type ResponseItem = {
  id?: string;
  type: string;
  status?: string | null;
};

/** A request of the Responses API. Other fields are passed to models that accept them. */
export type ResponseRequest = {
  model: string;
  input: string | Array<InputItem>;
  instructions?: string | null;
  previous_response_id?: string | null;
  conversation?: string | ConversationReference | null;
  tools?: Array<ResponseTool> | null;
  tool_choice?: ResponseToolChoice | null;
  parallel_tool_calls?: boolean | null;
  text?: TextOptions | null;
  reasoning?: ReasoningOptions | null;
  truncation?: string | null;
  stream?: boolean | null;
  /** Whether the run continues without its client, and after a restart of the gateway. */
  background?: boolean | null;
  /** False stores nothing: the response cannot be retrieved or continued later. */
  store?: boolean | null;
  /** How calls of server tools are shown; the default is a setting of the model. */
  server_tools?: ServerTools | null;
  max_output_tokens?: number | null;
  max_tool_calls?: number | null;
  metadata?: Record<string, string> | null;
  include?: Array<string> | null;
  temperature?: number | null;
  top_p?: number | null;
  top_logprobs?: number | null;
  prompt_cache_key?: string | null;
  safety_identifier?: string | null;
  service_tier?: string | null;
};

export type ResponseStatus = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

export type ResponseTool = ResponseFunctionTool | CustomTool | ToolNamespace | McpServer | HostedTool;

export type ResponseToolChoice = ("auto" | "none" | "required") | ChosenTool | AllowedResponseTools;

/** The sum of all rounds. */
export type ResponseUsage = {
  input_tokens: number;
  input_tokens_details: CachedInput;
  output_tokens: number;
  output_tokens_details: ReasoningOutput;
  total_tokens: number;
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
  stop_reason?: ("answer" | "calls" | "max_rounds" | "budget" | "repetition" | "length" | "content_filter" | "malformed_call" | "deadline" | "stopped" | "error") | null;
  error?: RunError;
  response?: ChatCompletion;
  summary?: RunSummary;
};

export type RunDeleted = {
  id: string;
  object: "run.deleted";
  deleted: true;
};

export type RunError = {
  message: string;
  type: string;
  param?: string | null;
};

export type RunEvent = TextDelta | ThoughtDelta | PartReceived | ToolCallStarted | ToolCallDelta | ToolCallEnded | TurnEnded | RunStarted | RunResumed | RoundStarted | RoundRestarted | Status | ToolRunStarted | ToolRunProgress | ToolRunEnded | ApprovalRequested | ApprovalResolved | OutputRejected | RunEnded;

export type RunList = {
  object: "list";
  data: Array<Run>;
};

/** Figures of a run so far. */
export type RunSummary = {
  seconds: number;
  rounds: number;
  input_tokens: number;
  output_tokens: number;
  tools: Record<string, ToolTotals>;
};

export type SchemaTextFormat = {
  type: "json_schema";
  schema: Record<string, unknown>;
  name?: string;
  strict?: boolean | null;
};

export type ServerTools = "mcp_call" | "function_call" | "hidden";

export type SimpleFormat = {
  type: "text" | "json_object";
};

export type StreamOptions = {
  include_usage?: boolean;
  /** Adds events of the gateway's tools to chunks, in the field `windlass`. The header `Accept: text/event-stream; events=windlass` has the same effect. */
  include_tool_events?: boolean;
};

export type TextBlock = {
  type: "text";
  text: string;
};

export type TextOptions = {
  format?: PlainTextFormat | SchemaTextFormat | null;
  verbosity?: string | null;
};

export type TextPart = {
  type: "text";
  text: string;
};

export type ThinkingBlock = {
  type: "thinking";
  thinking: string;
  signature?: string;
};

export type ThinkingConfig = {
  includeThoughts?: boolean;
  thinkingBudget?: number;
  thinkingLevel?: string;
};

export type TokenCount = {
  input_tokens: number;
};

/** The sum of all rounds. */
export type TokenUsage = {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details?: CachedTokens;
  completion_tokens_details?: ReasoningTokens;
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
  calls: ToolCalls;
};

export type ToolAnswer = {
  call_id: string;
  name: string;
  outcome: Outcome;
  response: Record<string, unknown>;
  parts: Array<InlineData | FileData>;
  seconds: number;
  effect_unknown: boolean;
  progress: Array<ToolProgress>;
  /** Whether the tool crashed; its traceback is in the gateway's log. */
  crashed?: boolean;
};

/** The calls of this key: its newest 200 runs and its manual calls. */
export type ToolCalls = {
  count: number;
  failures: number;
  last: Array<LastCall>;
};

export type ToolChoice = ("auto" | "none" | "required") | NamedFunction | AllowedTools;

export type ToolConfig = {
  functionCallingConfig?: FunctionCallingConfig;
};

export type ToolList = {
  object: "list";
  data: Array<Tool>;
};

/** The result of a call in an earlier message. */
export type ToolMessage = {
  role: "tool";
  tool_call_id: string;
  content: string | Array<ContentPart> | null;
};

/** Client tools whose names have a common prefix. */
export type ToolNamespace = {
  type: "namespace";
  name: string;
  description?: string | null;
  tools: Array<Record<string, unknown>>;
};

export type ToolProgress = {
  time: number;
  progress: number | null;
  message: string | null;
  data: unknown;
};

export type ToolResultBlock = {
  type: "tool_result";
  tool_use_id: string;
  content?: string | Array<Record<string, unknown>>;
  is_error?: boolean;
};

export type ToolTotals = {
  calls: number;
  failures: number;
  seconds: number;
};

export type ToolUseBlock = {
  type: "tool_use";
  id: string;
  name: string;
  input: Record<string, unknown>;
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

/** A piece of the model's reasoning. */
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
  cost?: string | null;
};

/** The first event of every run. */
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

/** One message of a conversation. The role `model` is read as `assistant`. */
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

/** The tool of a call starts. */
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

/** A call waits for a decision. */
export type ApprovalRequested = {
  event: "approval_requested";
  call: FunctionCall;
  reason?: string | null;
  seq: number;
  time: number;
  type: "control";
  done: false;
};

/** The decision about a call that was waiting. */
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

/** The answer of this round is not a valid value. The next round asks the model again. */
export type OutputRejected = {
  event: "output_rejected";
  round: number;
  errors: Array<string>;
  message: Message;
  seq: number;
  time: number;
  type: "control";
  done: false;
};

/** The last event of every run. */
export type RunEnded = {
  event: "run_ended";
  reason: "answer" | "budget" | "calls" | "content_filter" | "deadline" | "error" | "length" | "malformed_call" | "max_rounds" | "repetition" | "stopped";
  usage?: Usage;
  rounds?: number;
  error?: string | null;
  budget?: ("key" | "max_cost" | "max_tokens_total") | null;
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

/** The contents of an export file. */
export type Export = {
  format: string;
  version: number;
  run: RunRecord;
  messages: Array<Record<string, unknown>>;
  rounds: Array<ExportedRound>;
  resumed: Array<number>;
  usage: Usage;
  events: Array<TextDelta | ThoughtDelta | PartReceived | ToolCallStarted | ToolCallDelta | ToolCallEnded | TurnEnded | RunStarted | RunResumed | RoundStarted | RoundRestarted | Status | ToolRunStarted | ToolRunProgress | ToolRunEnded | ApprovalRequested | ApprovalResolved | OutputRejected | RunEnded>;
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
  reason?: ("answer" | "budget" | "calls" | "content_filter" | "deadline" | "error" | "length" | "malformed_call" | "max_rounds" | "repetition" | "stopped") | null;
  error?: string | null;
  events?: number;
  size?: number;
};

/** One request to the model, the model's turn, and its calls. */
export type ExportedRound = {
  number: number;
  started: number;
  ended?: number | null;
  superseded?: boolean;
  text?: string;
  thoughts?: string;
  finish?: ("content_filter" | "length" | "malformed_call" | "other" | "stop" | "tool_calls") | null;
  usage?: Usage;
  calls?: Array<ExportedCall>;
};

/** A call and its result. Times are Unix seconds. */
export type ExportedCall = {
  id: string;
  name: string;
  arguments: Record<string, unknown> | string;
  approval?: ExportedApproval | null;
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
export type ExportedApproval = {
  asked: number;
  answered?: number | null;
  approved?: boolean | null;
  arguments?: Record<string, unknown> | null;
  reason?: string | null;
};

/** The body of a rename. */
export type NewTitle = {
  title: string;
};

/** The body of a call. */
export type HandCall = {
  arguments?: Record<string, unknown>;
  approved?: boolean;
};
