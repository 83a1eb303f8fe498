"""The request that proves a connection, and what its failure means."""

import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from windlass.cli.connect.clients import DEFAULT_KEY_ENV, GatewayAddress, ProofRequest
from windlass.cli.output import cut, one_line
from windlass.errors import ConfigError
from windlass.gateway.config.checks import is_loopback

TIMEOUT_SECONDS = 300.0
MAX_ERROR_CHARS = 300


class ProofResult(Struct, frozen=True):
    """What came of the request, and how to fix a failure."""

    ok: bool
    detail: str
    fix: str | None = None


def prove(gateway: GatewayAddress, request: ProofRequest) -> ProofResult:
    """Sends the request as the client would."""
    try:
        with _sent(gateway, request.path, request.body, request.headers) as response:
            return _streamed(request, gateway, response)
    except urllib.error.HTTPError as error:
        with error:
            return _refused(gateway, request, error)
    except (OSError, HTTPException) as error:
        return _unreachable(gateway, error)


def first_model(root: str, key_env: str | None) -> str:
    """The first model that a gateway lists. Raises `ConfigError` if it cannot be asked."""
    gateway = GatewayAddress(root, "", key_env)
    try:
        with _sent(gateway, "/v1/models") as response:
            return msgspec.json.decode(response.read())["data"][0]["id"]
    except urllib.error.HTTPError as error:
        with error:
            reason = f"status {error.code}: {_message(error)}"
    except (OSError, HTTPException) as error:
        reason = _reason(error)
    except (msgspec.DecodeError, LookupError, TypeError):
        reason = "it lists no models"
    raise ConfigError(f"cannot choose a model of {root}: {reason}; name one with --model")


def _sent(
    gateway: GatewayAddress,
    path: str,
    body: dict[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> HTTPResponse:
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(f"{gateway.root}{path}", data)
    for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
        request.add_header(name, value)
    if gateway.key_env is not None:
        request.add_header("Authorization", f"Bearer {os.environ.get(gateway.key_env, '')}")
    # A proxy cannot reach this machine's own address.
    is_local = is_loopback(urlsplit(gateway.root).hostname or "")
    handlers = [urllib.request.ProxyHandler({})] if is_local else []
    opener = urllib.request.build_opener(*handlers)
    return opener.open(request, timeout=TIMEOUT_SECONDS)


def _streamed(
    request: ProofRequest, gateway: GatewayAddress, lines: Iterable[bytes]
) -> ProofResult:
    """Reads the events of the answer up to its end."""
    text = ""
    for line in lines:
        event = _event(line)
        match event:
            case {"type": "response.output_text.delta", "delta": str(piece)}:
                text += piece
            case {"type": "content_block_delta", "delta": {"text": str(piece)}}:
                text += piece
            case {"candidates": [{"content": {"parts": [{"text": str(piece)}, *_]}, **others}, *_]}:
                text += piece
                if request.completed in others:
                    return _answered(gateway, text)
            case {"candidates": [{**others}, *_]} if request.completed in others:
                return _answered(gateway, text)
            case {"type": "response.failed" | "response.incomplete" | "error" as kind}:
                return ProofResult(False, f"{gateway.model} ended with {kind}: {_problem(event)}")
            case {"type": kind} if kind == request.completed:
                return _answered(gateway, text)
            case {"error": {"message": _}}:
                return ProofResult(False, f"{gateway.model} failed: {_problem(event)}")
            case _:
                pass
    return ProofResult(
        False,
        f"the answer ended without {request.completed}",
        "check the log of the gateway, and proxies between it and this machine",
    )


def _answered(gateway: GatewayAddress, text: str) -> ProofResult:
    return ProofResult(True, f"{gateway.model} answered: {cut(one_line(text), 80)}")


def _event(line: bytes) -> dict[str, Any]:
    if not line.startswith(b"data: {"):
        return {}
    try:
        return msgspec.json.decode(line[len(b"data: ") :], type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _problem(event: dict[str, Any]) -> str:
    response: dict[str, Any] = event.get("response") or event
    error: dict[str, Any] = response.get("error") or response.get("incomplete_details") or {}
    return cut(one_line(str(error.get("message") or error.get("reason") or error)), MAX_ERROR_CHARS)


def _refused(
    gateway: GatewayAddress, request: ProofRequest, error: urllib.error.HTTPError
) -> ProofResult:
    message = _message(error)
    detail = f"{gateway.root}{request.path} answered with status {error.code}: {message}"
    match error.code:
        case 401 | 403:
            return ProofResult(False, detail, _key_fix(gateway))
        case 404 if "model" in message:
            return ProofResult(False, detail, "name another model with --model")
        case 404 | 405:
            return ProofResult(False, detail, "check --url: it must be the address of a gateway")
        case _:
            return ProofResult(False, detail, "check the log of the gateway")


def _key_fix(gateway: GatewayAddress) -> str:
    if gateway.key_env is None:
        return f"export {DEFAULT_KEY_ENV}=KEY (`windlass keys new` creates one), and repeat this"
    if not os.environ.get(gateway.key_env):
        return f"export {gateway.key_env}=KEY (`windlass keys new` creates one)"
    return f"check that {gateway.key_env} contains a key that the gateway knows"


def _unreachable(gateway: GatewayAddress, error: Exception) -> ProofResult:
    return ProofResult(
        False,
        f"cannot reach {gateway.root}: {_reason(error)}",
        "start the gateway with `windlass serve`, or name another with --url",
    )


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return one_line(str(getattr(reason, "strerror", None) or reason))


def _message(error: urllib.error.HTTPError) -> str:
    """The message of an error's body, or the reason of its status."""
    try:
        message = msgspec.json.decode(error.read())["error"]["message"]
    except (OSError, HTTPException, msgspec.DecodeError, LookupError, TypeError):
        message = error.reason
    return cut(one_line(str(message)), MAX_ERROR_CHARS)
