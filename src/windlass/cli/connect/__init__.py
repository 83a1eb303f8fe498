"""`windlass connect`: the settings that other programs need to use a gateway."""

import argparse
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from windlass.cli.arguments import add_action
from windlass.cli.connect.clients import (
    CLIENTS,
    DEFAULT_KEY_ENV,
    ClientApp,
    GatewayAddress,
    MergedSettings,
    root_of,
)
from windlass.cli.connect.proof import first_model, prove
from windlass.errors import ConfigError
from windlass.gateway.config import GatewayConfig, examine_config, find_config

DESCRIPTION = """\
Prints the settings that a client needs to use a gateway, or adds them to its settings file with
--write. Then it sends one request, to prove that the client gets an answer."""

EPILOG = """\
examples:
  windlass connect codex
  windlass connect codex --write
  windlass connect codex --write --url https://llm.example.com/v1 --model fast --key-env LLM_KEY

Settings that you made stay as they are, and the previous file is kept as a backup. The key itself
is never written: the settings name the environment variable that contains it."""

ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    actions = parser.add_subparsers(title="clients", dest="client", metavar="CLIENT", required=True)
    for name, client in CLIENTS.items():
        _add_options(add_action(actions, name, client.help, _examples(name)))


def _examples(name: str) -> str:
    first, _, rest = EPILOG.partition("\n")
    return "\n".join((first, rest.replace("connect codex", f"connect {name}")))


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url",
        help="the address of the gateway (default: that of windlass.toml here, otherwise"
        " http://127.0.0.1:8080/v1)",
    )
    parser.add_argument(
        "--model", help="a model of the gateway (default: the first one that it has)"
    )
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        help="the environment variable that contains the gateway's key (default:"
        f" {DEFAULT_KEY_ENV} if it is set, otherwise none)",
    )
    parser.add_argument(
        "--write", action="store_true", help="add the settings to the file of the client"
    )
    parser.add_argument("--no-check", action="store_true", help="do not send a request")


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` if settings are wrong, or a file cannot be read or written."""
    client = CLIENTS[options.client]
    gateway = _gateway(options)
    if options.write:
        _write(client, gateway)
    else:
        settings = client.merge("", gateway)
        sys.stdout.write(settings.text)
        sys.stdout.flush()
        _report(f"Add this to {client.file(os.environ)}, or repeat the command with --write.")
        _report(f"Start {client.title} with: {settings.start}")
    return 0 if options.no_check else _proven(client, gateway)


def _gateway(options: argparse.Namespace) -> GatewayAddress:
    key_env = options.key_env or (DEFAULT_KEY_ENV if os.environ.get(DEFAULT_KEY_ENV) else None)
    if key_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key_env):
        raise ConfigError("--key-env must be the name of an environment variable, not a key")
    config, _ = examine_config(find_config(Path()), os.environ)
    root = _local_root(config) if options.url is None else root_of(options.url)
    model = options.model
    if model is None and options.url is None:
        model = next(iter(config.models), None)
    return GatewayAddress(root, model or first_model(root, key_env), key_env)


def _local_root(config: GatewayConfig) -> str:
    host = config.server.host
    return f"http://{ANY_HOST.get(host, host)}:{config.server.port}"


def _write(client: ClientApp, gateway: GatewayAddress) -> None:
    path = client.file(os.environ)
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        merged = _merged(client, gateway, path, text)
        if merged.text == text:
            _report(f"{path} is up to date.")
        else:
            _replace(path, merged.text)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot write {path}: {reason}") from error
    if merged.note:
        _report(f"Note: {merged.note}.")
    _report(f"Start {client.title} with: {merged.start}")


def _merged(client: ClientApp, gateway: GatewayAddress, path: Path, text: str) -> MergedSettings:
    try:
        return client.merge(text, gateway)
    except ConfigError as error:
        raise ConfigError(f"cannot edit {path}: {error}") from None


def _replace(path: Path, text: str) -> None:
    """Replaces the file in one step, and keeps the previous one. A symbolic link stays a link."""
    place = path.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        if place.exists():
            shutil.copymode(place, name)
            backup = _free_backup(place)
            shutil.copy2(place, backup)
            _report(f"Backup: {backup}")
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _report(f"Written: {path}")


def _free_backup(path: Path) -> Path:
    """A name that no earlier backup has: the first backup is the user's own file."""
    number = 0
    while (backup := path.with_name(f"{path.name}.bak{number or ''}")).exists():
        number += 1
    return backup


def _proven(client: ClientApp, gateway: GatewayAddress) -> int:
    request = client.proof(gateway)
    _report(f"Sending a request to {gateway.root}{request.path} ...")
    outcome = prove(gateway, request)
    if outcome.ok:
        _report(f"ok: {outcome.detail}")
        return 0
    _report(f"failed: {outcome.detail}")
    if outcome.fix:
        _report(f"fix: {outcome.fix}")
    return 1


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
