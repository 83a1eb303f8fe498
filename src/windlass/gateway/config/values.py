"""What a gateway is set up with: values, each with its default and the words for what it may be.

The descriptions are what an error says after "must be".
"""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from windlass.loop.executor import ToolExecutor
from windlass.settings import Mode

__all__ = [
    "GatewayConfig",
    "KeyConfig",
    "LimitsConfig",
    "McpConfig",
    "ModelConfig",
    "RunsConfig",
    "ServerConfig",
    "ToolsSection",
    "WorkersConfig",
]

A_YEAR = 31_536_000

Text: TypeAlias = Annotated[str, Meta(min_length=1, description="a text that is not empty")]
Texts: TypeAlias = Annotated[tuple[Text, ...], Meta(description="a list of texts")]
NamedTexts: TypeAlias = Annotated[dict[str, str], Meta(description="a table of names and texts")]
Flag: TypeAlias = Annotated[bool, Meta(description="true or false")]
Port: TypeAlias = Annotated[int, Meta(ge=0, le=65535, description="a whole number from 0 to 65535")]
Count: TypeAlias = Annotated[int, Meta(ge=1, description="a whole number, 1 or more")]
CountOrNone: TypeAlias = Annotated[int, Meta(ge=0, description="a whole number, 0 or more")]
Seconds: TypeAlias = Annotated[
    float, Meta(gt=0, le=A_YEAR, description="a number of seconds above 0, at most a year's")
]
SecondsOrNone: TypeAlias = Annotated[
    float, Meta(ge=0, le=A_YEAR, description="a number of seconds, 0 or more, at most a year's")
]
Days: TypeAlias = Annotated[
    float, Meta(gt=0, le=36_500, description="a number of days above 0, at most a century's")
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
    bool | tuple[Text, ...], Meta(description="true, false or a list of texts")
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
    """`[server]`: where the gateway listens and what it writes down."""

    host: Text = "127.0.0.1"
    port: Port = 8080
    """0 lets the system choose."""
    cors_origins: Texts = ()
    """Web pages that may call the gateway from a browser; `*` is all of them."""
    heartbeat: Seconds = 15.0
    """Seconds between the comments that keep a quiet stream open."""
    keep_alive_timeout: Seconds = 5.0
    """Seconds for which a connection without a request stays open."""
    shutdown_timeout: SecondsOrNone = 30.0
    """Seconds that running requests get to end."""
    console: Flag = True
    """Whether there is a page for people at `/`."""
    earlier_text: EarlierText = "include"
    """Whether an answer has the text of all its rounds, or of the last one alone."""
    access_log: Flag = True
    log_content: Flag = False
    """Whether prompts, answers, arguments and results may be in logs and traces."""


class ModelConfig(Struct, frozen=True, kw_only=True):
    """`[models.NAME]`: a name that clients use, and the model behind it."""

    name: Text
    """What a client puts into `model`: the table's own name."""
    target: Text
    """`provider/model`."""
    base_url: Text | None = None
    api_key_env: Text | None = None
    """The variable that holds the key. Without it the provider's own one is read."""
    mode: Mode | None = None
    """None leaves it to `FUNCTION_CALLING_MODE`."""
    function_calling: Flag = True
    """False gives the model no tools at all, neither the gateway's nor the client's."""
    tools: Texts = ()
    """Names of tools, and `SERVER__*` for all that an MCP server has."""
    sessions: Texts = ()
    """Sessions of workers whose tools every run has."""
    max_rounds: CountOrNone = 5
    on_limit: OnLimit = "final_answer"
    run_timeout: Seconds | None = None
    """None leaves it to `limits.run_timeout`."""
    tool_timeout: Seconds = 300.0
    approval_timeout: Seconds = 300.0
    max_parallel: Count = 16
    """How many tools of one run may be running at once."""
    expose_errors: Flag = False
    """Whether the model reads the texts of all exceptions of tools, not of `ToolError` alone."""
    max_running: Count | None = None
    """How many runs of this model may go at once."""
    system: Text | None = None
    """A system message for conversations that bring none."""
    headers: NamedTexts = {}
    """Sent with every request to the model's service."""

    def __repr__(self) -> str:
        """Headers and addresses may hold secrets."""
        return f"ModelConfig(name={self.name!r}, target={self.target!r})"


class KeyConfig(Struct, frozen=True, kw_only=True):
    """`[[keys]]`: somebody who may use the gateway."""

    name: Text
    hash: Text
    """`sha256:` and the hexadecimal digest of the key."""
    models: Texts | None = None
    """None allows every model, an empty list none."""
    sessions: Texts = ()
    """Names and patterns (`user_*`) of the sessions of workers that its requests may name."""
    metrics: Flag | None = None
    """Whether it may read `/metrics`, which names all keys; None: unless `models` restricts it."""
    requests_per_minute: Count | None = None
    max_running: Count | None = None


class LimitsConfig(Struct, frozen=True, kw_only=True):
    """`[limits]`: how much the gateway takes on."""

    max_body_bytes: Count = 32 * 2**20
    max_header_bytes: Count = 64 * 2**10
    header_timeout: Seconds = 15.0
    """Seconds from a connection, or the first byte of its next request, to complete headers."""
    max_connections_per_address: Count | None = None
    """None means 512 without keys, or half of the process's descriptors, and no bound with keys."""
    max_json_depth: Count = 64
    max_tools: Count = 128
    """Of one request."""
    max_messages: Count = 10_000
    """Of one request."""
    max_running: Count = 200
    """Runs at once, of all models."""
    max_queued: CountOrNone = 100
    """Requests that may wait for their turn."""
    queue_timeout: SecondsOrNone = 30.0
    run_timeout: Seconds = 600.0
    keep_finished: SecondsOrNone = 300.0
    """Seconds for which an ended run can still be read."""
    max_kept_runs: CountOrNone = 1000
    max_kept_bytes: CountOrNone = 128 * 2**20
    """Of what ended runs were asked and answered, about."""


class RunsConfig(Struct, frozen=True, kw_only=True):
    """`[runs]`: where runs outlive the process: in a file, or in NATS for a fleet of gateways."""

    path: Text | None = None
    """Relative to the configuration's own file."""
    nats: Texts = ()
    """Addresses of NATS servers with JetStream, in place of a file."""
    replicas: Count = 1
    """How many of the servers of a NATS cluster keep each event."""
    creds: Text | None = None
    """A file of NATS credentials."""
    synchronous: Synchronous = "normal"
    """`full` waits for the disk at every step, and outlives a loss of power too."""
    on_interrupt: OnInterrupt = "tell_model"
    """What becomes of a tool that ran when the process ended, and is not idempotent."""
    keep_days: Days | None = 30.0
    """How long ended runs are kept."""
    max_runs: Count | None = None
    max_bytes: Count | None = None

    def __repr__(self) -> str:
        """Addresses may hold passwords."""
        return f"RunsConfig(path={self.path!r})"


class WorkersConfig(Struct, frozen=True, kw_only=True):
    """`[workers]`: tools in other processes and machines, over NATS."""

    nats: Texts = ()
    """Addresses of your own servers. None at all starts one on this machine."""
    port: Port = 4222
    """Of the server on this machine; 0 takes any that is free."""
    creds: Text | None = None
    """A file of NATS credentials."""
    affinity: Affinity = "hint"
    """How firmly a session keeps to the worker of its last call."""
    session_ttl: Seconds | None = None
    """A session that is not used for so long is over."""
    host_tools: Texts = ()
    """Tools of the gateway that workers may call."""

    def __repr__(self) -> str:
        """Addresses may hold passwords."""
        return f"WorkersConfig(affinity={self.affinity!r})"


class ToolsSection(Struct, frozen=True, kw_only=True):
    """`[tools]`."""

    modules: Texts = ()
    executor: Text | None = None
    """`module:name` of the class, the instance or the factory that answers tool calls."""


class McpConfig(Struct, frozen=True, kw_only=True):
    """`[mcp.NAME]`: a server of tools, started by its command or reached at its address."""

    name: Text
    """What the names of its tools begin with, before two underscores."""
    command: Text | None = None
    url: Text | None = None
    env: NamedTexts = {}
    """Variables for the command."""
    headers: NamedTexts = {}
    """Sent with every request to the address."""
    token_env: Text | None = None
    """The variable with the token that the address wants."""
    timeout: Seconds = 60.0
    """Of a call, without an answer and without a word of progress."""
    start_timeout: Seconds = 60.0
    approve: FlagOrTexts = False
    """Whether each call needs somebody's yes: all, or those of these tools of the server's."""
    trust_hints: Flag = False
    """Whether the server is believed when it says that a tool may be run twice."""
    on_change: OnChange = "approve"
    """What becomes of a tool whose description is not the one that was first seen."""
    state_dir: Text | None = None
    """Where the first descriptions are kept."""

    def __repr__(self) -> str:
        """A command, an address and the variables may hold secrets."""
        return f"McpConfig(name={self.name!r})"


class GatewayConfig(Struct, frozen=True, kw_only=True):
    """Everything that a gateway is set up with."""

    server: ServerConfig = ServerConfig()
    models: dict[str, ModelConfig] = {}
    tool_modules: tuple[str | McpConfig, ...] = ()
    """Files, relative to `base`, importable names, and the MCP servers whose tools are used."""
    executor: str | ToolExecutor | None = None
    """What answers tool calls in place of the default; a text is its import path."""
    mcp: dict[str, McpConfig] = {}
    keys: tuple[KeyConfig, ...] = ()
    """None at all lets everybody in."""
    limits: LimitsConfig = LimitsConfig()
    runs: RunsConfig = RunsConfig()
    workers: WorkersConfig | None = None
    path: Path | None = None
    """The file that it came from."""
    open_models: bool = False
    """Whether any `provider/model` is served, beside the models that have a name."""

    @property
    def base(self) -> Path:
        """Where relative paths begin: beside the file, or the current directory."""
        return self.path.parent if self.path else Path()
