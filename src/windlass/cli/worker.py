"""`windlass worker`: offers the tools of a file to gateways over NATS."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from windlass.cli.arguments import add_tools_option, whole_number
from windlass.cli.model_selection import find_tools
from windlass.errors import ConfigError

NATS = "WINDLASS_NATS"

DESCRIPTION = """\
Registers the tools of a file with every gateway on a NATS server, and executes their calls. Workers
with the same tools share the calls. The worker runs until you stop it."""

EPILOG = f"""\
examples:
  windlass worker --tools tools.py --nats nats://127.0.0.1:4222
  windlass worker --tools tools.py --nats tls://nats.example.com --creds w.creds --session alice
  {NATS}=nats://10.0.0.5:4222 windlass worker --tools tools.py"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_tools_option(parser)
    parser.add_argument(
        "--nats",
        action="append",
        metavar="URL",
        help=f"the NATS server (default: {NATS}, or this machine)",
    )
    parser.add_argument(
        "--session", default="default", help="the session of the tools (default: default)"
    )
    parser.add_argument("--id", help="the name of the worker (default: a new one)")
    parser.add_argument(
        "--max-running",
        type=whole_number(1),
        default=16,
        metavar="N",
        help="maximum number of concurrent calls (default: 16)",
    )
    parser.add_argument("--creds", type=Path, metavar="FILE", help="NATS credentials")


def run(options: argparse.Namespace) -> int:
    tools = list(find_tools(options.tools).values())
    if not tools:
        raise ConfigError("no tools: name a file with --tools")
    try:
        from windlass.toolsets.remote.toolset import DEFAULT_SERVER
        from windlass.worker import serve
    except ModuleNotFoundError as error:
        raise ConfigError(f"workers need {error.name}: pip install 'windlass[fleet]'") from error
    servers = options.nats or os.environ.get(NATS, DEFAULT_SERVER).split(",")
    connection: dict[str, Any] = {}
    if options.creds is not None:
        if not options.creds.is_file():
            raise ConfigError(f"--creds: no such file: {options.creds}")
        connection["user_credentials"] = str(options.creds)
    serve(
        tools,
        nats=servers,
        session=options.session,
        worker_id=options.id,
        max_running=options.max_running,
        on_start=_started,
        **connection,
    )
    return 0


def _started(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
