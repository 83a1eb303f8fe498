"""`@tool` makes a function a `Tool`: a declaration, a validator of arguments, and the function.

Importing this package and decorating functions is cheap; pydantic is imported when the first schema
is needed.
"""

from windlass.tool.declarations import InvalidSchema
from windlass.tool.definition import OnInterrupt, Tool, ToolOptions, as_tools, checked, tool
from windlass.tool.signature import Depends, ToolContext

__all__ = [
    "Depends",
    "InvalidSchema",
    "OnInterrupt",
    "Tool",
    "ToolContext",
    "ToolOptions",
    "as_tools",
    "checked",
    "tool",
]
