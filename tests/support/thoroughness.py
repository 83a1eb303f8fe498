"""How many of the sampled tests and examples a run of the tests includes."""

import os

WHOLE = bool(os.environ.get("WINDLASS_TEST_WHOLE"))
"""`make test WHOLE=1`: nothing is sampled."""

WHOLE_BFCL = WHOLE or bool(os.environ.get("BFCL_WHOLE"))
"""`make bfcl`: BFCL is not sampled."""

QUICK = bool(os.environ.get("WINDLASS_TEST_QUICK"))
"""`make quick`: nothing that needs a process or weights, and fewer random examples."""


def examples(count: int) -> int:
    """The number of random examples: a third of `count`, a quarter in a quick run, and five times
    `count` in a whole one."""
    if WHOLE:
        return count * 5
    return min(count, max(5, count // (4 if QUICK else 3)))
