"""`windlass keys`: creates keys for clients of the gateway."""

import argparse
import sys

import msgspec

from windlass.cli.arguments import add_action
from windlass.errors import ConfigError
from windlass.gateway.config.keys import new_key

DESCRIPTION = """\
`windlass keys new` creates a key. It prints the key to stdout, and the lines for windlass.toml,
which contain only its hash, to stderr."""

EPILOG = """\
examples:
  windlass keys new --name web
  windlass keys new --name web 2>> windlass.toml     # prints the key, stores its hash

A client sends the key as `Authorization: Bearer KEY` or `X-API-Key: KEY`."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    new = add_action(actions, "new", "create a key", EPILOG)
    new.add_argument("--name", help="the name of the key (default: made from its hash)")


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` for an invalid name."""
    key, hashed = new_key()
    name = f"key-{hashed[-8:]}" if options.name is None else options.name
    if not name or not name.isprintable():
        raise ConfigError("--name must not be empty or contain control characters")
    quoted = msgspec.json.encode(name).decode()
    sys.stdout.write(f"{key}\n")
    sys.stdout.flush()
    sys.stderr.write(
        "\n# The key is shown only once; windlass.toml stores this hash of it.\n"
        f'[[keys]]\nname = {quoted}\nhash = "{hashed}"\n'
    )
    return 0
