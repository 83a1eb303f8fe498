"""The settings of a gateway: the type, bounds, rules, default and meaning of each, declared once.

In an error message, the description of a type follows "must be". `tables` reads the structs, and
the documentation's tables have the same names, values, defaults and docstrings.
"""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from windlass.errors import ConfigError
from windlass.gateway.config.checks import (
    cost_from,
    hash_problem,
    header_problem,
    host_problem,
    name_problem,
    origin_problem,
    repetition_problem,
    session_problem,
    target_problem,
    url_problem,
)
from windlass.loop.executor import ToolExecutor
from windlass.pricing import Price, price_from
from windlass.settings import Mode, mode_from

YEAR_SECONDS = 31_536_000


class Rule(Struct, frozen=True):
    """A check of a value that has the right type: returns an error message or None."""

    problem: Callable[[Any], str | None]
    each: bool = False
    """Whether it checks each item of a list, or each name and value of a table."""


class Parse(Struct, frozen=True):
    """Reads a value that its type alone does not: raises `ConfigError`."""

    parse: Callable[[Any], Any]


class Secret(Struct, frozen=True):
    """Marks a setting that may be or contain a secret: messages do not show its value."""


SECRET: Final = Secret()

Text: TypeAlias = Annotated[str, Meta(min_length=1, description="a non-empty string")]
SecretText: TypeAlias = Annotated[Text, SECRET]
Host: TypeAlias = Annotated[Text, Rule(host_problem)]
Target: TypeAlias = Annotated[Text, Rule(target_problem)]
Url: TypeAlias = Annotated[SecretText, Rule(url_problem)]
KeyName: TypeAlias = Annotated[Text, Rule(name_problem)]
KeyHash: TypeAlias = Annotated[SecretText, Rule(hash_problem)]
Texts: TypeAlias = Annotated[tuple[Text, ...], Meta(description="a list of strings")]
SecretTexts: TypeAlias = Annotated[Texts, SECRET]
Command: TypeAlias = Annotated[
    Text | tuple[Text, ...], Meta(description="a string or a list of strings"), SECRET
]
Origins: TypeAlias = Annotated[Texts, Rule(origin_problem, each=True)]
ToolNames: TypeAlias = Annotated[Texts, Rule(repetition_problem)]
SessionPatterns: TypeAlias = Annotated[Texts, Rule(session_problem, each=True)]
Variables: TypeAlias = Annotated[dict[str, str], Meta(description="a table of strings"), SECRET]
Headers: TypeAlias = Annotated[Variables, Rule(header_problem, each=True)]
Flag: TypeAlias = Annotated[bool, Meta(description="true or false")]
FlagOrTexts: TypeAlias = Annotated[
    bool | tuple[Text, ...], Meta(description="true, false or a list of strings")
]
Port: TypeAlias = Annotated[int, Meta(ge=0, le=65535, description="a whole number from 0 to 65535")]
Count: TypeAlias = Annotated[int, Meta(ge=1, description="a whole number, 1 or more")]
CountOrZero: TypeAlias = Annotated[int, Meta(ge=0, description="a whole number, 0 or more")]
Seconds: TypeAlias = Annotated[
    float, Meta(gt=0, le=YEAR_SECONDS, description="a number of seconds above 0, at most one year")
]
SecondsOrZero: TypeAlias = Annotated[
    float,
    Meta(ge=0, le=YEAR_SECONDS, description="a number of seconds, 0 or more, at most one year"),
]
Cost: TypeAlias = Annotated[Decimal, Meta(description="a number above 0"), Parse(cost_from)]
ModelPrice: TypeAlias = Annotated[
    Price, Meta(description="a table with input and output"), Parse(price_from)
]
Days: TypeAlias = Annotated[
    float, Meta(gt=0, le=36_500, description="a number of days above 0, at most 36,500")
]


def _processes_from(value: Any) -> int | Literal["auto"]:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if number == "auto" or (type(number) is int and 1 <= number <= MAX_PROCESSES):
        return number
    raise ConfigError(f"must be {PROCESSES}")


MAX_PROCESSES = 1024
PROCESSES = f'a whole number from 1 to {MAX_PROCESSES}, or "auto"'
Processes: TypeAlias = Annotated[
    int | Literal["auto"], Meta(description=PROCESSES), Parse(_processes_from)
]


class ServerConfig(Struct, frozen=True, kw_only=True):
    """`[server]`: address, connections, console and logs."""

    host: Host = "127.0.0.1"
    """An address or a host name. Any address except a loopback address requires `[[keys]]`."""
    port: Port = 8080
    """With 0, the system chooses a free port."""
    processes: Processes = 1
    """How many processes serve the port; `"auto"` takes one for each core."""
    cors_origins: Origins = ()
    """Web pages that may call from a browser: `scheme://host[:port]`, or `"*"` for all."""
    heartbeat: Seconds = 15.0
    """Time between the comments that keep an idle stream open."""
    keep_alive_timeout: Seconds = 5.0
    """How long a connection without a request stays open. Behind a proxy, set it above the proxy's
    own value."""
    shutdown_timeout: SecondsOrZero = 30.0
    """How long a shutdown waits for active requests."""
    console: Flag = True
    """Whether to serve the console at `/`."""
    earlier_text: Literal["include", "omit"] = "include"
    """Whether an answer contains the text that a model writes before it calls tools."""
    access_log: Flag = True
    """Whether to log one line for each request."""
    log_content: Flag = False
    """Whether logs and traces may contain prompts, answers, arguments and results."""


class ModelConfig(Struct, frozen=True, kw_only=True):
    """`[models.NAME]`: a model that clients can use by this name."""

    name: Text
    """The value of `model` in a request: the name of the table."""
    target: Target
    """`provider/model`, see models."""
    base_url: Url | None = None
    """The address of the model's service; for `openai/` it includes `/v1`."""
    api_key_env: SecretText | None = None
    """The environment variable that contains the key; without it, the provider's usual variable."""
    mode: Annotated[Mode, Parse(mode_from)] | None = None
    """The function calling mode, see models without function calling; without it,
    `FUNCTION_CALLING_MODE` decides."""
    function_calling: Flag = True
    """With `false`, the model has no tools at all, neither server tools nor client tools."""
    tools: ToolNames = ()
    """Names of tools of the tool modules and MCP servers; `NAME__*` means all tools of a server."""
    sessions: Texts = ()
    """Sessions of workers whose tools every run gets."""
    max_rounds: CountOrZero = 5
    """How many rounds of tools a run may have."""
    on_limit: Literal["final_answer", "error"] = "final_answer"
    """After the last round: an answer without tools, or an error."""
    prices: ModelPrice | None = None
    """The price of one million tokens: `{ input = 1.25, output = 10, cached_input = 0.125 }`, see
    budgets. Without `cached_input`, cached tokens cost as much as others."""
    max_tokens_total: Count | None = None
    """The budget of tokens of a run. A request can lower it."""
    max_cost: Cost | None = None
    """The budget of a run's cost, which needs `prices`. A request can lower it."""
    run_timeout: Seconds | None = None
    """Time for a whole run; without it, `limits.run_timeout`."""
    tool_timeout: Seconds = 300.0
    """Time for a tool without its own `timeout`."""
    approval_timeout: Seconds = 300.0
    """Time for an approval; then the call is denied."""
    max_parallel: Count = 16
    """How many tools of one run may run at the same time."""
    expose_errors: Flag = False
    """With `true`, the model reads the text of every exception that a tool raises: see errors."""
    aliases: Texts = ()
    """Other names of the model for clients; `*` matches any characters, as in `claude-*`."""
    server_tools: Literal["mcp_call", "function_call", "hidden"] = "mcp_call"
    """How clients of the Responses API see the calls of server tools: as `mcp_call` items, as
    `function_call` items with their results, or not at all."""
    max_running: Count | None = None
    """How many runs of this model may be active at the same time."""
    system: Text | None = None
    """A system message for conversations that have none."""
    headers: Headers = {}
    """Headers for every request to the model's service."""
    examples: Texts = ()
    """Prompts that the console offers in a new chat; it shows the first four. Without any, they are
    made from the declarations of the model's tools."""

    def __repr__(self) -> str:
        """Leaves out headers and addresses, which may contain secrets."""
        return f"ModelConfig(name={self.name!r}, target={self.target!r})"


class KeyConfig(Struct, frozen=True, kw_only=True):
    """`[[keys]]`: a key of the gateway and its permissions."""

    name: KeyName
    """The name of the key's owner, as shown in logs."""
    hash: KeyHash
    """The hash that `windlass keys new` printed."""
    models: Texts | None = None
    """The models that the key may use; without it all models, with `[]` none."""
    sessions: SessionPatterns = ()
    """The sessions of workers that the key's requests may name: names and patterns such as
    `"user_*"`; without it none."""
    metrics: Flag | None = None
    """Whether the key may read `/metrics`, which name all keys and models; without it, only if
    `models` is not set."""
    requests_per_minute: Count | None = None
    """How many requests this key may send in a minute."""
    max_running: Count | None = None
    """How many runs of this key may be active at the same time."""
    max_tokens_per_day: Count | None = None
    """How many tokens the runs of this key may use in a day (UTC), see budgets."""
    max_tokens_per_month: Count | None = None
    """How many tokens in a calendar month (UTC)."""
    max_cost_per_day: Cost | None = None
    """What the runs of this key may cost in a day (UTC). The key's models need `prices`."""
    max_cost_per_month: Cost | None = None
    """What they may cost in a calendar month (UTC)."""


class LimitsConfig(Struct, frozen=True, kw_only=True):
    """`[limits]`: sizes, timeouts and numbers of requests and runs."""

    max_body_bytes: Count = 32 * 2**20
    """The maximum size of a request's body."""
    max_header_bytes: Count = 64 * 2**10
    """The maximum size of a request's headers."""
    header_timeout: Seconds = 15.0
    """Time from a new connection, or from the first byte of its next request, to complete headers.
    A late client gets 408 and is disconnected."""
    max_connections_per_address: Count | None = None
    """Open connections per address, loopback addresses included; more get 429. Without `[[keys]]`,
    the default is 512, or half of the file descriptors that the process may open if that is less.
    With `[[keys]]`, there is no limit unless you set one: behind a proxy, all clients have its
    address."""
    max_json_depth: Count = 64
    """The maximum nesting of a request's JSON."""
    max_tools: Count = 128
    """The maximum number of tools in a request."""
    max_messages: Count = 10_000
    """The maximum number of messages in a request."""
    max_running: Count = 200
    """How many runs may be active at the same time, over all models."""
    max_queued: CountOrZero = 100
    """How many requests may wait for a free place."""
    queue_timeout: SecondsOrZero = 30.0
    """How long a request may wait for a free place."""
    run_timeout: Seconds = 600.0
    """Time for a whole run, if the model does not set one."""
    keep_finished: SecondsOrZero = 300.0
    """How long an ended run stays in memory if `[runs]` does not store it."""
    max_kept_runs: CountOrZero = 1000
    """How many of these ended runs stay in memory."""
    max_kept_bytes: CountOrZero = 128 * 2**20
    """The approximate memory of these ended runs, in bytes."""


class RunsConfig(Struct, frozen=True, kw_only=True):
    """`[runs]`: the log of runs, a file or NATS for several gateways."""

    path: Text | None = None
    """The file that stores runs and chats, relative to `windlass.toml`; created when needed.
    Without it, runs end with the gateway."""
    nats: SecretTexts = ()
    """Addresses of NATS servers with JetStream, instead of a file: for a fleet of gateways."""
    replicas: Count = 1
    """How many servers of a NATS cluster store each event."""
    creds: Text | None = None
    """A file of NATS credentials."""
    synchronous: Literal["normal", "full"] = "normal"
    """`"full"` waits for the disk at every step and also survives a power loss."""
    on_interrupt: Literal["tell_model", "retry", "fail"] = "tell_model"
    """What to do with a tool that was running when the gateway exited and is not idempotent. The
    tool's own setting overrides it."""
    keep_days: Days | None = 30.0
    """How many days ended runs are kept."""
    max_runs: Count | None = None
    """How many ended runs are kept."""
    max_bytes: Count | None = None
    """The maximum total size of ended runs."""

    def __repr__(self) -> str:
        """Leaves out addresses, which may contain passwords."""
        return f"RunsConfig(path={self.path!r})"


class ResponsesConfig(Struct, frozen=True, kw_only=True):
    """`[responses]`: what clients of the Responses API may do."""

    mcp_hosts: Texts = ()
    """Hosts of MCP servers that a request may name, such as `"mcp.example.com"` or
    `"localhost:9000"`. Without any, such a request is refused."""


class WorkersConfig(Struct, frozen=True, kw_only=True):
    """`[workers]`: tools in other processes and on other machines, over NATS."""

    nats: SecretTexts = ()
    """Addresses of your NATS servers; without any, the gateway starts one on this machine."""
    port: Port = 4222
    """The port of the server on this machine; 0 takes any free port."""
    creds: Text | None = None
    """A file of NATS credentials."""
    affinity: Literal["hint", "strict_queue", "strict_fail_fast"] = "hint"
    """How strictly a session stays with one worker."""
    session_ttl: Seconds | None = None
    """How long a session exists without being used."""
    host_tools: Texts = ()
    """Tools of the gateway that workers may call."""

    def __repr__(self) -> str:
        """Leaves out addresses, which may contain passwords."""
        return f"WorkersConfig(affinity={self.affinity!r})"


class ToolsSection(Struct, frozen=True, kw_only=True):
    """`[tools]`: tool modules and a custom executor."""

    modules: Texts = ()
    """Files, relative to `windlass.toml`, and importable names such as `"acme.tools"`."""
    executor: Text | None = None
    """`"module:name"` of a custom executor: a class, an instance or a factory."""
    prompts: Text | None = None
    """A folder of prompts for MCP clients, relative to `windlass.toml`."""


class McpConfig(Struct, frozen=True, kw_only=True):
    """`[mcp.NAME]`: an MCP server, started by a command or reached at a URL."""

    name: Text
    """The prefix of its tools' names, before two underscores."""
    command: Command | None = None
    """The command that starts the server, as one string or as a list of its words; set either this
    or `url`."""
    url: Url | None = None
    """The address of the server."""
    env: Variables = {}
    """Environment variables for the command, besides PATH, HOME and similar ones."""
    cwd: Text | None = None
    """The directory that the command runs in, relative to `windlass.toml`."""
    protocol: Literal["auto", "2025-11-25", "2026-07-28"] = "auto"
    """The version of MCP; `"auto"` takes the newest that the server has."""
    optional: Flag = False
    """With `true`, the gateway also starts without the server. It is tried again, and its tools
    appear when it is there."""
    headers: Headers = {}
    """Headers for every request to the address."""
    token_env: SecretText | None = None
    """The environment variable with the token for the address, sent as `Authorization: Bearer`."""
    auth: Literal["oauth"] | None = None
    """`"oauth"` for a server at a `url` with logins. Each key has its own: see
    `windlass mcp login`."""
    client_id: SecretText | None = None
    """The id of a registered OAuth client; without it, Windlass registers itself."""
    client_secret_env: SecretText | None = None
    """The environment variable with the secret of that client, if it has one."""
    scope: Text | None = None
    """The OAuth scopes to ask for, separated by spaces; without it, those that the server names."""
    timeout: Seconds = 60.0
    """How long a call may take without an answer or a progress report."""
    start_timeout: Seconds = 60.0
    """Time to start, connect and list the tools."""
    max_result_bytes: Count = 64 * 2**20
    """The maximum size of a result. A larger one is an error."""
    roots: Texts = ()
    """The directories that the server may work in, relative to `windlass.toml`."""
    instructions: Flag = False
    """Whether the model reads the server's instructions, as a system message."""
    read_resources: Flag = False
    """Whether the model gets the tool `NAME__read_resource` for links in results."""
    sampling: Text | None = None
    """The name of the model that answers the server's own requests, each after an approval;
    without it, they are refused."""
    sampling_tokens: Count = 10_000
    """How many tokens these answers may cost in one run."""
    approve: FlagOrTexts = False
    """Whether calls need approval: all calls, or those of the listed tools."""
    trust_hints: Flag = False
    """Whether to trust the server's hint that a tool may be run twice."""
    on_change: Literal["approve", "refuse", "allow"] = "approve"
    """When a tool's description changes: `"approve"` asks at its next call, `"refuse"` leaves the
    tool out, `"allow"` accepts the new description."""
    state_dir: Text | None = None
    """Where the first descriptions are stored; without it, `WINDLASS_STATE_DIR` or
    `~/.local/state/windlass`."""

    def __repr__(self) -> str:
        """Leaves out the command, the URL and the variables, which may contain secrets."""
        return f"McpConfig(name={self.name!r})"


class ConfigFile(Struct, frozen=True, kw_only=True):
    """The sections of `windlass.toml`."""

    server: ServerConfig = ServerConfig()
    models: dict[str, ModelConfig] = {}
    tools: ToolsSection = ToolsSection()
    mcp: dict[str, McpConfig] = {}
    keys: tuple[KeyConfig, ...] = ()
    limits: LimitsConfig = LimitsConfig()
    runs: RunsConfig = RunsConfig()
    responses: ResponsesConfig = ResponsesConfig()
    workers: WorkersConfig | None = None


class GatewayConfig(Struct, frozen=True, kw_only=True):
    """The complete configuration of a gateway."""

    server: ServerConfig = ServerConfig()
    models: dict[str, ModelConfig] = {}
    tool_modules: tuple[str | McpConfig, ...] = ()
    """Files relative to `base`, importable names, and the MCP servers in use."""
    executor: str | ToolExecutor | None = None
    """A custom executor of tool calls; a string is its import path."""
    prompts: str | None = None
    """A folder of prompts for MCP clients, relative to `base`."""
    mcp: dict[str, McpConfig] = {}
    keys: tuple[KeyConfig, ...] = ()
    """Without keys the gateway accepts every request."""
    limits: LimitsConfig = LimitsConfig()
    runs: RunsConfig = RunsConfig()
    responses: ResponsesConfig = ResponsesConfig()
    workers: WorkersConfig | None = None
    path: Path | None = None
    """The file of this configuration."""
    open_models: bool = False
    """Whether clients can use any `provider/model` besides the named models."""

    @property
    def base(self) -> Path:
        """The base of relative paths: the folder of the file, or the current directory."""
        return self.path.parent if self.path else Path()
