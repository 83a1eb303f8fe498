"""`python -m windlass`: the command line."""

import sys

from windlass.cli import main

sys.exit(main())
