"""`python -m adjoint`: the command without its installed script."""

import sys

from adjoint.cli import main

sys.exit(main())
