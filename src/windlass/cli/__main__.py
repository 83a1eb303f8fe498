"""`python -m windlass.cli`."""

import sys

from windlass.cli import main

sys.exit(main())
