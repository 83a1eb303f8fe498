"""The chat-completions wire: OpenAI and every server that speaks like it."""

from windlass.models.openai.model import OpenAIModel

__all__ = ["OpenAIModel"]
