"""Tools that live in other processes and machines, registered by their workers, session by session.

`windlass.remote("session")` is a toolset like any other.
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
    "remote",
]

remote = RemoteSession
"""`windlass.remote("session", nats=URL)`: the session's tools, wherever its workers are."""
