"""The settings of a gateway, with their defaults and limits.

In an error message, the description of a type follows "must be".
"""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from windlass.loop.executor import ToolExecutor
from windlass.settings import Mode

YEAR_SECONDS = 31_536_000

Text: TypeAlias = Annotated[str, Meta(min_length=1, description="a non-empty string")]
Texts: TypeAlias = Annotated[tuple[Text, ...], Meta(description="a list of strings")]
NamedTexts: TypeAlias = Annotated[dict[str, str], Meta(description="a table of strings")]
Flag: TypeAlias = Annotated[bool, Meta(description="true or false")]
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
Days: TypeAlias = Annotated[
    float, Meta(gt=0, le=36_500, description="a number of days above 0, at most 36,500")
]
Synchronous: TypeAlias = Annotated[
    Literal["normal", "full"], Meta(description="'normal' or 'full'")
]
Affinity: TypeAlias = Annotated[
    Literal["hint", "strict_queue", "strict_fail_fast"],
    Meta(description="'hint', 'strict_queue' or 'strict_fail_fast'"),
]
OnInterrupt: TypeAlias = Annotated[
    Literal["tell_model", "retry", "fail"], Meta(description="'tell_model', 'retry' or 'fail'")
]
FlagOrTexts: TypeAlias = Annotated[
    bool | tuple[Text, ...], Meta(description="true, false or a list of strings")
]
OnChange: TypeAlias = Annotated[
    Literal["approve", "refuse", "allow"], Meta(description="'approve', 'refuse' or 'allow'")
]
OnLimit: TypeAlias = Annotated[
    Literal["final_answer", "error"], Meta(description="'final_answer' or 'error'")
]


EarlierText: TypeAlias = Annotated[
    Literal["include", "omit"], Meta(description="'include' or 'omit'")
]


class ServerConfig(Struct, frozen=True, kw_only=True):
    """`[server]`: address, connections, console and logs."""

    host: Text = "127.0.0.1"
    port: Port = 8080
    """0 means any free port."""
    cors_origins: Texts = ()
    """Origins of web pages that may call the gateway; `*` allows all."""
    heartbeat: Seconds = 15.0
    """Seconds between the comments that keep an idle stream open."""
    keep_alive_timeout: Seconds = 5.0
    """Seconds until an idle connection is closed."""
    shutdown_timeout: SecondsOrZero = 30.0
    """Seconds in which active runs can finish during a shutdown."""
    console: Flag = True
    """Whether the console is served at `/`."""
    earlier_text: EarlierText = "include"
    """Whether an answer includes the text of all its rounds, or only of the last one."""
    access_log: Flag = True
    log_content: Flag = False
    """Whether logs and traces may contain prompts, answers, arguments and results."""


class ModelConfig(Struct, frozen=True, kw_only=True):
    """`[models.NAME]`: a model that clients can use by this name."""

    name: Text
    """The value of `model` in a request: the name of the table."""
    target: Text
    """`provider/model`."""
    base_url: Text | None = None
    api_key_env: Text | None = None
    """The environment variable with the key; by default the provider's usual variable."""
    mode: Mode | None = None
    """None means the value of `FUNCTION_CALLING_MODE`."""
    function_calling: Flag = True
    """False means no tools at all, neither server tools nor client tools."""
    tools: Texts = ()
    """Names of tools; `SERVER__*` means all tools of an MCP server."""
    sessions: Texts = ()
    """Worker sessions whose tools are available to every run."""
    max_rounds: CountOrZero = 5
    on_limit: OnLimit = "final_answer"
    run_timeout: Seconds | None = None
    """None means `limits.run_timeout`."""
    tool_timeout: Seconds = 300.0
    approval_timeout: Seconds = 300.0
    max_parallel: Count = 16
    """The maximum number of tools that one run executes at the same time."""
    expose_errors: Flag = False
    """Whether the model receives the messages of all exceptions of tools, not just `ToolError`."""
    max_running: Count | None = None
    """The maximum number of active runs of this model."""
    system: Text | None = None
    """A system message for requests that have none."""
    headers: NamedTexts = {}
    """Headers of every request to the model's service."""

    def __repr__(self) -> str:
        """Leaves out headers and addresses, which may contain secrets."""
        return f"ModelConfig(name={self.name!r}, target={self.target!r})"


class KeyConfig(Struct, frozen=True, kw_only=True):
    """`[[keys]]`: a key of the gateway and its permissions."""

    name: Text
    hash: Text
    """`sha256:` and the hexadecimal digest of the key."""
    models: Texts | None = None
    """None allows every model, an empty list none."""
    sessions: Texts = ()
    """Names and patterns (`user_*`) of the worker sessions that requests may use."""
    metrics: Flag | None = None
    """Whether the key may read `/metrics`, which names all keys; None: only if `models` is None."""
    requests_per_minute: Count | None = None
    max_running: Count | None = None


class LimitsConfig(Struct, frozen=True, kw_only=True):
    """`[limits]`: sizes, timeouts and numbers of requests and runs."""

    max_body_bytes: Count = 32 * 2**20
    max_header_bytes: Count = 64 * 2**10
    header_timeout: Seconds = 15.0
    """Seconds from the connection, or from the first byte of a request, to complete headers."""
    max_connections_per_address: Count | None = None
    """None means no limit with keys; without keys 512, or half of the process's descriptors."""
    max_json_depth: Count = 64
    max_tools: Count = 128
    """The maximum number of tools in a request."""
    max_messages: Count = 10_000
    """The maximum number of messages in a request."""
    max_running: Count = 200
    """The maximum number of active runs of all models."""
    max_queued: CountOrZero = 100
    """The maximum number of requests that wait for a free run."""
    queue_timeout: SecondsOrZero = 30.0
    run_timeout: Seconds = 600.0
    keep_finished: SecondsOrZero = 300.0
    """Seconds for which an ended run stays in memory."""
    max_kept_runs: CountOrZero = 1000
    max_kept_bytes: CountOrZero = 128 * 2**20
    """The approximate total size of ended runs in memory."""


class RunsConfig(Struct, frozen=True, kw_only=True):
    """`[runs]`: the log of runs, a file or NATS for several gateways."""

    path: Text | None = None
    """The file, relative to the configuration file."""
    nats: Texts = ()
    """Addresses of NATS servers with JetStream, instead of a file."""
    replicas: Count = 1
    """The number of servers of a NATS cluster that store each event."""
    creds: Text | None = None
    """A file of NATS credentials."""
    synchronous: Synchronous = "normal"
    """`full` waits for the disk at every step, so that events survive a loss of power."""
    on_interrupt: OnInterrupt = "tell_model"
    """How a resumed run treats an interrupted tool that is not idempotent."""
    keep_days: Days | None = 30.0
    """Days after which ended runs are deleted."""
    max_runs: Count | None = None
    max_bytes: Count | None = None

    def __repr__(self) -> str:
        """Leaves out addresses, which may contain passwords."""
        return f"RunsConfig(path={self.path!r})"


class WorkersConfig(Struct, frozen=True, kw_only=True):
    """`[workers]`: tools in other processes and on other machines, over NATS."""

    nats: Texts = ()
    """Addresses of NATS servers. An empty list starts a server on this machine."""
    port: Port = 4222
    """The port of the server on this machine; 0 means any free port."""
    creds: Text | None = None
    """A file of NATS credentials."""
    affinity: Affinity = "hint"
    """How strictly a session stays with the worker of its last call."""
    session_ttl: Seconds | None = None
    """Seconds without use after which a session ends."""
    host_tools: Texts = ()
    """Tools of the gateway that workers may call."""

    def __repr__(self) -> str:
        """Leaves out addresses, which may contain passwords."""
        return f"WorkersConfig(affinity={self.affinity!r})"


class ToolsSection(Struct, frozen=True, kw_only=True):
    """`[tools]`: tool modules and a custom executor."""

    modules: Texts = ()
    executor: Text | None = None
    """`module:name` of a `ToolExecutor`: a class, an instance or a factory."""


class McpConfig(Struct, frozen=True, kw_only=True):
    """`[mcp.NAME]`: an MCP server, started by a command or reached at a URL."""

    name: Text
    """The prefix of its tools' names, before two underscores."""
    command: Text | None = None
    url: Text | None = None
    env: NamedTexts = {}
    """Environment variables of the command."""
    headers: NamedTexts = {}
    """Headers of every request to the URL."""
    token_env: Text | None = None
    """The environment variable with the bearer token for the URL."""
    timeout: Seconds = 60.0
    """Seconds without a result or progress after which a call fails."""
    start_timeout: Seconds = 60.0
    approve: FlagOrTexts = False
    """Whether calls need approval: all calls, or only those of the listed tools."""
    trust_hints: Flag = False
    """Whether to trust the server's hint that a tool is idempotent."""
    on_change: OnChange = "approve"
    """How to treat a tool whose description has changed since it was first seen."""
    state_dir: Text | None = None
    """The folder that stores the first descriptions."""

    def __repr__(self) -> str:
        """Leaves out the command, the URL and the variables, which may contain secrets."""
        return f"McpConfig(name={self.name!r})"


class GatewayConfig(Struct, frozen=True, kw_only=True):
    """The complete configuration of a gateway."""

    server: ServerConfig = ServerConfig()
    models: dict[str, ModelConfig] = {}
    tool_modules: tuple[str | McpConfig, ...] = ()
    """Files relative to `base`, importable names, and the MCP servers in use."""
    executor: str | ToolExecutor | None = None
    """A custom executor of tool calls; a string is its import path."""
    mcp: dict[str, McpConfig] = {}
    keys: tuple[KeyConfig, ...] = ()
    """Without keys the gateway accepts every request."""
    limits: LimitsConfig = LimitsConfig()
    runs: RunsConfig = RunsConfig()
    workers: WorkersConfig | None = None
    path: Path | None = None
    """The file of this configuration."""
    open_models: bool = False
    """Whether clients can use any `provider/model` besides the named models."""

    @property
    def base(self) -> Path:
        """The base of relative paths: the folder of the file, or the current directory."""
        return self.path.parent if self.path else Path()
