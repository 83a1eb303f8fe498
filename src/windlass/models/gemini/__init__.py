"""Gemini's generateContent wire, at the Gemini API and at Vertex AI."""

from windlass.models.gemini.model import GeminiModel, VertexModel

__all__ = ["GeminiModel", "VertexModel"]
