"""The clients that `windlass connect` knows, and their settings for a gateway. Pure."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from windlass.errors import ConfigError

PROVIDER = "windlass"
"""The name of the gateway in a client's settings."""
DEFAULT_KEY_ENV = "WINDLASS_API_KEY"
PROMPT = "Answer with the word: connected"
"""The prompt of the request that proves a connection."""


class GatewayAddress(Struct, frozen=True):
    """What a client needs to use a model of a gateway."""

    root: str
    """Its URL without the path `/v1`."""
    model: str
    key_env: str | None = None
    """The environment variable that contains the key; None if the gateway needs no key."""


class MergedSettings(Struct, frozen=True):
    """The new text of a settings file, and the command that starts the client with them."""

    text: str
    start: str
    note: str | None = None


class ProofRequest(Struct, frozen=True):
    """The request that proves that the client can use the gateway."""

    path: str
    body: dict[str, Any]
    completed: str
    """The type of the event that ends a successful answer, or the field of its last event."""
    headers: dict[str, str] = {}


class ClientApp(Struct, frozen=True):
    """A program that can use a gateway, and where it keeps its settings."""

    title: str
    help: str
    file: Callable[[Mapping[str, str]], Path]
    """The settings file, by the environment."""
    merge: Callable[[str, GatewayAddress], MergedSettings]
    """Adds the gateway to the text of the file. Raises `ConfigError` if it cannot."""
    proof: Callable[[GatewayAddress], ProofRequest]


def root_of(url: str) -> str:
    """The URL of a gateway without `/v1` and slashes at its end. Raises `ConfigError`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"--url must be like http://127.0.0.1:8080/v1, not {url!r}")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


# Codex: a TOML file. Its lines are edited, so that comments and order stay.

_ANY_TABLE = re.compile(r"\s*\[")
_OWN_TABLE = re.compile(rf"\s*\[\s*model_providers\s*\.\s*[\"']?{PROVIDER}[\"']?\s*\]\s*(#.*)?$")


def codex_file(environ: Mapping[str, str]) -> Path:
    home = environ.get("CODEX_HOME")
    return (Path(home) if home else Path.home() / ".codex") / "config.toml"


def codex_settings(text: str, gateway: GatewayAddress) -> MergedSettings:
    """Codex's `config.toml` with the gateway as a provider.

    The gateway becomes the default unless the file names another model or provider.
    """
    before = _read_toml(text)
    is_default = before.get("model_provider") == PROVIDER or not {
        "model",
        "model_provider",
    } & set(before)
    chosen = {"model": gateway.model, "model_provider": PROVIDER}
    provider: dict[str, str | None] = {
        "name": "Windlass",
        "base_url": f"{gateway.root}/v1",
        "env_key": gateway.key_env,
        "wire_api": "responses",
    }
    lines = text.split("\n") if text else []
    start = next((n for n, line in enumerate(lines) if _ANY_TABLE.match(line)), len(lines))
    top = _with_values(lines[:start], chosen, at_start=True) if is_default else lines[:start]
    is_new = start in (0, len(lines))
    gap = [""] if is_new and top and top[-1].strip() else []
    tables = _with_provider(lines[start:], provider)
    merged = "\n".join([*top, *gap, *tables]).rstrip("\n") + "\n"
    _check_codex(before, chosen if is_default else {}, provider, merged)
    if is_default:
        return MergedSettings(merged, "codex")
    kept = before.get("model_provider") or before.get("model")
    return MergedSettings(
        merged,
        f"codex -c model_provider={PROVIDER} -m {shlex.quote(gateway.model)}",
        f"the file already names {kept!r}, which stays the default",
    )


def _with_provider(lines: list[str], values: Mapping[str, str | None]) -> list[str]:
    """The tables of the file with the provider's table; its other settings stay."""
    start = next((n for n, line in enumerate(lines) if _OWN_TABLE.match(line)), None)
    if start is None:
        table = _with_values([], values)
        gap = [""] if lines and lines[-1].strip() else []
        return [*lines, *gap, f"[model_providers.{PROVIDER}]", *table]
    first = start + 1
    rest = (n for n, line in enumerate(lines[first:], first) if _ANY_TABLE.match(line))
    end = next(rest, len(lines))
    return [*lines[:first], *_with_values(lines[first:end], values), *lines[end:]]


def _with_values(
    lines: list[str], values: Mapping[str, str | None], *, at_start: bool = False
) -> list[str]:
    """The lines of one table with these values. None removes a value."""
    kept = list(lines)
    missing: list[str] = []
    for name, value in values.items():
        line = None if value is None else f"{name} = {_quoted(value)}"
        found = next((n for n, each in enumerate(kept) if _assigns(each, name)), None)
        if found is not None:
            kept[found : found + 1] = [] if line is None else [line]
        elif line is not None:
            missing.append(line)
    if at_start:
        return [*missing, *kept]
    end = len(kept)
    while end and not kept[end - 1].strip():
        end -= 1
    return [*kept[:end], *missing, *kept[end:]]


def _assigns(line: str, name: str) -> bool:
    return re.match(rf"\s*[\"']?{name}[\"']?\s*=", line) is not None


def _quoted(value: str) -> str:
    return msgspec.json.encode(value).decode()


def _read_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}") from None


def _check_codex(
    before: dict[str, Any], chosen: dict[str, str], provider: dict[str, str | None], merged: str
) -> None:
    """Raises `ConfigError` unless the new file has the new settings and all others unchanged."""
    providers = cast("dict[str, Any]", before.get("model_providers", {}))
    others = {key: each for key, each in providers.get(PROVIDER, {}).items() if key not in provider}
    given = {key: value for key, value in provider.items() if value is not None}
    expected = {
        **before,
        **chosen,
        "model_providers": {**providers, PROVIDER: {**others, **given}},
    }
    try:
        is_merged = tomllib.loads(merged) == expected
    except tomllib.TOMLDecodeError:
        is_merged = False
    if not is_merged:
        raise ConfigError("its layout cannot be edited automatically; add the settings manually")


def responses_proof(gateway: GatewayAddress) -> ProofRequest:
    body = {
        "model": gateway.model,
        "input": PROMPT,
        "stream": True,
        "store": False,
    }
    return ProofRequest("/v1/responses", body, "response.completed")


# Claude Code: a JSON file, whose `env` becomes the environment of the program.

NO_KEY = PROVIDER
"""The token for a gateway that needs none: without any, Claude Code asks its user to sign in."""
_PRINTS_KEY = "printenv "
_CREDENTIALS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")


def claude_file(environ: Mapping[str, str]) -> Path:
    folder = environ.get("CLAUDE_CONFIG_DIR")
    return (Path(folder) if folder else Path.home() / ".claude") / "settings.json"


def claude_settings(text: str, gateway: GatewayAddress) -> MergedSettings:
    """Claude Code's `settings.json` with the address of the gateway, its model and its key."""
    before = _read_json(text)
    env = _object(before, "env")
    _check_claude(before, env, gateway)
    own = {
        "ANTHROPIC_BASE_URL": gateway.root,
        "ANTHROPIC_MODEL": gateway.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": gateway.model,
    }
    if gateway.key_env is None:
        own["ANTHROPIC_AUTH_TOKEN"] = NO_KEY
    kept = {name: value for name, value in env.items() if name in own or name not in _CREDENTIALS}
    merged = {**before, "env": {**kept, **own}}
    if gateway.key_env is not None:
        merged["apiKeyHelper"] = _PRINTS_KEY + gateway.key_env
    else:
        merged.pop("apiKeyHelper", None)
    if merged != before:
        text = json.dumps(merged, indent=2, ensure_ascii=False) + "\n"
    return MergedSettings(text, "claude")


def _check_claude(before: dict[str, Any], env: dict[str, Any], gateway: GatewayAddress) -> None:
    """Raises `ConfigError` if the user has connected Claude Code to another service."""
    helper = before.get("apiKeyHelper")
    is_own_helper = isinstance(helper, str) and helper.startswith(_PRINTS_KEY)
    if helper is not None and not is_own_helper:
        raise ConfigError("it already has an apiKeyHelper; remove that first")
    for name in _CREDENTIALS:
        if env.get(name) not in (None, NO_KEY):
            raise ConfigError(f"its env already has {name}; remove that first")
    is_own = is_own_helper or env.get("ANTHROPIC_AUTH_TOKEN") == NO_KEY
    address = env.get("ANTHROPIC_BASE_URL", gateway.root)
    if not is_own and address != gateway.root:
        raise ConfigError(f"its env already has ANTHROPIC_BASE_URL {address!r}; remove that first")


def _read_json(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ConfigError(f"not a JSON object: {error}") from None


def messages_proof(gateway: GatewayAddress) -> ProofRequest:
    body = {
        "model": gateway.model,
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": PROMPT}],
        "stream": True,
    }
    headers = {"anthropic-version": "2023-06-01"}
    return ProofRequest("/v1/messages", body, "message_stop", headers)


# Gemini CLI: a JSON file for the kind of its key. The address must be in the environment: a file
# of variables is not read in folders that the user does not trust.

_USE_KEY = "gemini-api-key"


def gemini_file(environ: Mapping[str, str]) -> Path:
    folder = environ.get("GEMINI_CLI_HOME")
    return (Path(folder) if folder else Path.home()) / ".gemini" / "settings.json"


def gemini_settings(text: str, gateway: GatewayAddress) -> MergedSettings:
    """Gemini CLI's `settings.json` with a key as its way to sign in."""
    before = _read_json(text)
    security = _object(before, "security")
    auth = _object(security, "auth")
    if auth.get("selectedType", _USE_KEY) != _USE_KEY:
        raise ConfigError("its security.auth already has another selectedType; remove that first")
    merged = {**before, "security": {**security, "auth": {**auth, "selectedType": _USE_KEY}}}
    if merged != before:
        text = json.dumps(merged, indent=2, ensure_ascii=False) + "\n"
    key = NO_KEY if gateway.key_env is None else f'"${gateway.key_env}"'
    address = f"GOOGLE_GEMINI_BASE_URL={shlex.quote(gateway.root)}"
    start = f"{address} GEMINI_API_KEY={key} gemini -m {shlex.quote(gateway.model)}"
    return MergedSettings(text, start)


def _object(fields: dict[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{name} must be an object")
    return cast("dict[str, Any]", value)


def gemini_proof(gateway: GatewayAddress) -> ProofRequest:
    body = {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]}
    path = f"/v1beta/models/{quote(gateway.model)}:streamGenerateContent?alt=sse"
    return ProofRequest(path, body, "finishReason")


CLIENTS: dict[str, ClientApp] = {
    "codex": ClientApp(
        title="Codex",
        help="OpenAI's Codex CLI, over the Responses API",
        file=codex_file,
        merge=codex_settings,
        proof=responses_proof,
    ),
    "claude": ClientApp(
        title="Claude Code",
        help="Anthropic's Claude Code, over the Messages API",
        file=claude_file,
        merge=claude_settings,
        proof=messages_proof,
    ),
    "gemini": ClientApp(
        title="Gemini CLI",
        help="Google's Gemini CLI, over Gemini's API",
        file=gemini_file,
        merge=gemini_settings,
        proof=gemini_proof,
    ),
}
"""Each client by the name of its action. A new one needs an entry here, and nothing else."""
