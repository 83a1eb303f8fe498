"""`windlass keys`: the keys that clients of the gateway show."""

import argparse
import sys

import msgspec

from windlass.errors import ConfigError
from windlass.gateway.config.key_hashes import new_key

DESCRIPTION = """\
`windlass keys new` makes a key: it goes to stdout, and what windlass.toml keeps of it, which is
only a hash, to stderr."""

EPILOG = """\
examples:
  windlass keys new --name web
  windlass keys new --name web 2>> windlass.toml     # the key on the screen, its hash in the file

A client sends the key as `Authorization: Bearer KEY` or `X-API-Key: KEY`."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    new = actions.add_parser(
        "new",
        help="make a key",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    new.add_argument("--name", help="who it is for (default: a name made from its hash)")


def run(options: argparse.Namespace) -> int:
    """Raises `ConfigError` for a name that cannot be one."""
    key, hashed = new_key()
    name = f"key-{hashed[-8:]}" if options.name is None else options.name
    if not name or not name.isprintable():
        raise ConfigError("--name must not be empty or have control characters")
    quoted = msgspec.json.encode(name).decode()
    sys.stdout.write(f"{key}\n")
    sys.stdout.flush()
    sys.stderr.write(
        "\n# The key is shown this once; this is what windlass.toml keeps of it.\n"
        f'[[keys]]\nname = {quoted}\nhash = "{hashed}"\n'
    )
    return 0
