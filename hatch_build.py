"""Writes the stubs for type checkers into wheels: the table has to be read for them.

An editable installation has none; `make stubs` writes them beside the modules, where git ignores
them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Runs `adjoint stubs` on the source that is packed, and packs what it wrote."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the stubs, unless the installation is editable."""
        if version == "editable":
            return
        self.directory_of_stubs = tempfile.TemporaryDirectory()
        made = Path(self.directory_of_stubs.name)
        source = os.environ | {"PYTHONPATH": str(Path(self.root) / "src")}
        subprocess.run([sys.executable, "-m", "adjoint", "stubs", made], env=source, check=True)
        for path in made.rglob("*.pyi"):
            build_data["force_include"][str(path)] = f"adjoint/{path.relative_to(made).as_posix()}"
