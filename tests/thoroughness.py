"""How much of the tests a run executes: `make quick`, `make test`, `make test WHOLE=1`."""

import os
from pathlib import Path

WHOLE = bool(os.environ.get("WINDLASS_TEST_WHOLE"))
"""`make test WHOLE=1`: nothing is sampled."""

QUICK = bool(os.environ.get("WINDLASS_TEST_QUICK"))
"""`make quick`: only tests that run in this process, without a browser, NATS or weights."""

WHOLE_BFCL = WHOLE or bool(os.environ.get("BFCL_WHOLE"))
"""`make bfcl`: nothing of BFCL is sampled."""

NOT_QUICK = (
    "aistudio",
    "bfcl",
    "cli",
    "console",
    "crash",
    "live",
    "local",
    "mcp",
    "remote",
    "test_examples.py",
    "test_exit.py",
    "test_fresh_imports.py",
)
"""Folders and files of `tests/` that need other processes. Single tests are marked `processes`."""


def is_quick(path: Path) -> bool:
    """Whether `make quick` runs the tests of this file."""
    parts = path.relative_to(Path(__file__).parent).parts
    return parts[0] not in NOT_QUICK and "/".join(parts) not in NOT_QUICK
