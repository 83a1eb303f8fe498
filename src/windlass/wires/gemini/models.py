"""The models of the gateway in Google's form. Pure."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # its imports are slow, and only the gateway's document needs them
    from windlass.wires.gemini.types import GeminiModelJson

METHODS = ("generateContent", "streamGenerateContent", "countTokens")


def model_fields(name: str) -> "GeminiModelJson":
    """A model as Google's clients expect it."""
    return {
        "name": f"models/{name}",
        "baseModelId": name,
        "version": "1",
        "displayName": name,
        "description": "A model of this gateway, with its tools.",
        "supportedGenerationMethods": list(METHODS),
    }
