"""`aistudio/`: the web page of Google AI Studio, in the user's browser, as a model.

A plug-in: the rest of Windlass finds it by its entry point and does not import it.
"""

from windlass.models.aistudio.config import aistudio_readiness
from windlass.models.aistudio.model import AIStudioModel
from windlass.models.provider import Provider

__all__ = ["AIStudioModel", "PROVIDER"]

PROVIDER = Provider(
    create=AIStudioModel,
    parts=frozenset({"image"}),
    readiness=aistudio_readiness,
    telemetry_name="gcp.gemini",
)
