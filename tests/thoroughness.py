"""How much of what is sampled by default a run of the tests goes through."""

import os

WHOLE = bool(os.environ.get("WINDLASS_TEST_WHOLE"))
"""`make test WHOLE=1`: nothing is sampled."""

WHOLE_BFCL = WHOLE or bool(os.environ.get("BFCL_WHOLE"))
"""`make bfcl`: nothing of BFCL is."""
