"""How much of what is sampled by default a run of the tests goes through."""

import os

WHOLE = bool(os.environ.get("WINDLASS_TEST_WHOLE"))
"""`make test WHOLE=1`: nothing is sampled."""

WHOLE_BFCL = WHOLE or bool(os.environ.get("BFCL_WHOLE"))
"""`make bfcl`: nothing of BFCL is."""

QUICK = bool(os.environ.get("WINDLASS_TEST_QUICK"))
"""`make quick`: nothing that needs a process or weights, and fewer random examples."""


def examples(count: int) -> int:
    """The number of random examples: a quarter in a quick run, fivefold in a whole one."""
    if WHOLE:
        return count * 5
    return max(5, count // 4) if QUICK else count
