"""A local replica of the Google AI Studio page, for tests in a real browser."""

from windlass.testing.aistudio.fake import (
    PARTS,
    Changes,
    FakeAIStudio,
    PageOptions,
    filled_late,
    late_calls,
    model_error,
    quota_callout,
    rendered_twice,
    toast,
    written_call,
)
from windlass.testing.aistudio.trial import TrialResult, try_model
from windlass.testing.aistudio.variants import PageVariant, variant_of

__all__ = [
    "FakeAIStudio",
    "PageOptions",
    "PARTS",
    "Changes",
    "PageVariant",
    "variant_of",
    "TrialResult",
    "try_model",
    "late_calls",
    "filled_late",
    "rendered_twice",
    "written_call",
    "toast",
    "quota_callout",
    "model_error",
]
