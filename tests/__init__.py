"""Tests: laws over the table, a folder for each room of the package, doors, campaigns, PyTorch.

A test is found by the name of what it tests: `tests/<folder>/test_<file>.py` for a file of the
package, `operators/` by family, `laws/` for what must hold for every row. `adjoint where NAME`
prints those of an operator. What several tests share stands here.
"""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
SOURCE = ROOT / "src" / "adjoint"
DATA = TESTS / "data"
STORED = TESTS / "stored"
