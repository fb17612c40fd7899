"""`adjoint stubs [DIRECTORY]`: the stubs that type checkers read, for a checkout."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adjoint import stubs
from adjoint.cli.operators import relative
from adjoint.cli.parser import FILE, add_command, completes
from adjoint.core.errors import ArgumentError


def add_stubs(commands: Any) -> None:
    """Describe `adjoint stubs`."""
    made = add_command(
        commands, "stubs", "write the stubs that type checkers read; wheels contain them",
        examples=("adjoint stubs    # in a checkout, where git ignores them",),
    )  # fmt: skip
    directory = made.add_argument(
        "directory", nargs="?", type=Path, metavar="DIRECTORY", default=stubs.PACKAGE,
        help="where to; without it, beside the modules of this installation",
    )  # fmt: skip
    completes(directory, FILE)
    made.set_defaults(run=run_stubs)


def run_stubs(args: argparse.Namespace) -> Iterator[str]:
    """Write them and say where they are."""
    try:
        written = stubs.write(args.directory)
    except OSError as error:
        raise ArgumentError(
            f"{error.strerror}: {error.filename}; name a directory that can be written to"
        ) from error
    yield f"{len(written)} stubs in {relative(str(args.directory))}"
