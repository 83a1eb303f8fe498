"""Automatic tool execution for any language model: the public names, nothing else."""

from typing import TYPE_CHECKING, Any

from windlass.client import AsyncChat, AsyncClient, AsyncRun, AsyncStream, Chat, Client, Run, Stream
from windlass.client.chat import ChatRecord
from windlass.content import (
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GoogleSearch,
    InlineData,
    Message,
    Opaque,
    Part,
    ProviderTool,
    Schema,
    Text,
    Thought,
    Usage,
)
from windlass.errors import (
    BudgetExceeded,
    ConfigError,
    DuplicateTool,
    InvalidArguments,
    ModelError,
    NativeModeUnavailable,
    OutputInvalid,
    RoundLimitExceeded,
    RunInterrupted,
    RunNotFound,
    StorageError,
    StreamCut,
    ToolError,
    TooManyRuns,
    WindlassError,
)
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    OutputRejected,
    PartReceived,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunResumed,
    RunStarted,
    Status,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    TurnEnded,
)
from windlass.loop.approval import Approval
from windlass.loop.executor import ToolExecutor, ToolJob
from windlass.model import Model, ModelRequest, Settings, ToolChoice, Toolset
from windlass.pricing import Price
from windlass.reply import Reply, ToolAnswer
from windlass.tool import Depends, Tool, ToolContext, tool
from windlass.toolsets.registry import ToolRegistry, registry

if TYPE_CHECKING:
    from windlass.client.remote import remote
    from windlass.emulation.parse import Parsed, ParsedCall, parse
    from windlass.toolsets.mcp import mcp

__version__ = "0.1.0"

__all__ = [
    # clients
    "AsyncChat",
    "AsyncClient",
    "AsyncRun",
    "AsyncStream",
    "Chat",
    "Client",
    "ChatRecord",
    "Reply",
    "Run",
    "Stream",
    # tools
    "Approval",
    "Depends",
    "Tool",
    "ToolAnswer",
    "ToolContext",
    "ToolExecutor",
    "ToolJob",
    "ToolRegistry",
    "Toolset",
    "mcp",
    "registry",
    "remote",
    "tool",
    # parser
    "Parsed",
    "ParsedCall",
    "parse",
    # content
    "FileData",
    "FunctionCall",
    "FunctionDeclaration",
    "FunctionResponse",
    "GoogleSearch",
    "InlineData",
    "Message",
    "Opaque",
    "Part",
    "Price",
    "ProviderTool",
    "Schema",
    "Text",
    "Thought",
    "Usage",
    # models
    "Model",
    "ModelRequest",
    "Settings",
    "ToolChoice",
    # events
    "ApprovalRequested",
    "ApprovalResolved",
    "OutputRejected",
    "PartReceived",
    "RoundRestarted",
    "RoundStarted",
    "RunEnded",
    "RunEvent",
    "RunResumed",
    "RunStarted",
    "Status",
    "TextDelta",
    "ThoughtDelta",
    "ToolCallDelta",
    "ToolCallEnded",
    "ToolCallStarted",
    "ToolRunEnded",
    "ToolRunProgress",
    "ToolRunStarted",
    "TurnEnded",
    # errors
    "BudgetExceeded",
    "ConfigError",
    "DuplicateTool",
    "InvalidArguments",
    "ModelError",
    "NativeModeUnavailable",
    "OutputInvalid",
    "RoundLimitExceeded",
    "RunInterrupted",
    "RunNotFound",
    "StorageError",
    "StreamCut",
    "ToolError",
    "TooManyRuns",
    "WindlassError",
]


def __getattr__(name: str) -> Any:
    """What weighs more than all the rest is loaded when it is asked for: parser, MCP and NATS."""
    if name in ("Parsed", "ParsedCall", "parse"):
        from windlass.emulation import parse as module
    elif name == "mcp":
        from windlass.toolsets import mcp as module
    elif name == "remote":
        from windlass.client import remote as module
    else:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    return getattr(module, name)
