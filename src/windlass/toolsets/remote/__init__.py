"""Remote tools: workers in other processes and machines register tools for a session.

`windlass.remote("session")` is the toolset of a session.
"""

from windlass.toolsets.remote.frames import ToolSpec
from windlass.toolsets.remote.toolset import (
    RemoteSession,
    execute_in_session,
    from_worker_tool,
    get_tools_for_model,
)

__all__ = [
    "RemoteSession",
    "ToolSpec",
    "execute_in_session",
    "from_worker_tool",
    "get_tools_for_model",
]
