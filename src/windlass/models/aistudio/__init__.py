"""`aistudio/`: the web page of Google AI Studio, in the user's browser, as a model."""

from windlass.models.aistudio.model import AIStudioModel

__all__ = ["AIStudioModel"]
