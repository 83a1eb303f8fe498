"""A local replica of the Google AI Studio page, for tests in a real browser."""

from windlass.testing.aistudio.fake import PARTS, FakeAIStudio, PageOptions
from windlass.testing.aistudio.steps import (
    filled_late,
    late_calls,
    model_error,
    quota_callout,
    rendered_twice,
    toast,
    written_call,
)

__all__ = [
    "FakeAIStudio",
    "PageOptions",
    "PARTS",
    "late_calls",
    "filled_late",
    "rendered_twice",
    "written_call",
    "toast",
    "quota_callout",
    "model_error",
]
