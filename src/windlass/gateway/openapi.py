"""The OpenAPI document of the gateway's own endpoints. Pure."""

from typing import Any

__all__ = ["openapi_document"]


def openapi_document() -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "Windlass gateway", "version": "1"}, "paths": {}}
