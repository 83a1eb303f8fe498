"""`FewExamplesModel`: emulation for models that many examples tempt to needless calls."""

from msgspec.structs import replace

from windlass.emulation.model import EmulatedModel
from windlass.emulation.prompt import PromptText

__all__ = ["FewExamplesModel"]


class FewExamplesModel(EmulatedModel):
    """Shows one call, after answers in words.

    A small model that sees a call for every tool makes one of them for a greeting too.
    """

    def _system(self, text: PromptText, tools: object) -> str:
        return super()._system(replace(text, few_examples=True), tools)
