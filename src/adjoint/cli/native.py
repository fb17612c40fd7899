"""`adjoint native`: build all native code of eager operators now, not when it is first used."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from adjoint.c_kernels import loading
from adjoint.cli.parser import add_command
from adjoint.core import cachedir
from adjoint.core.errors import AdjointError
from adjoint.loops import row_loops
from adjoint.table import TABLE
from adjoint.toolchain import background, build
from adjoint.transforms.progress import bar

_AT_ONCE = 16  # sources that are built together


def add_native(commands: Any) -> None:
    """Describe `adjoint native`."""
    made = add_command(
        commands, "native", "build all native code of eager operators now",
        examples=(
            "adjoint native    # in the Dockerfile of an image",
            "adjoint native --clean    # empty the directory of compiled code",
        ),
    )  # fmt: skip
    made.add_argument("--clean", action="store_true", help="remove all compiled code from disk")
    made.set_defaults(run=run)


def run(given: argparse.Namespace) -> Iterator[str]:
    """Build, or remove; the lines of a report."""
    return clean() if given.clean else build_all()


def clean() -> Iterator[str]:
    """Remove all files of the cache; processes that use them keep what they have loaded."""
    directory = build.cache_directory()
    count = len(cachedir.files(directory))
    removed = cachedir.shrink(directory, 0, fresh=0.0)
    yield f"removed    {count} files, {removed / 1e6:.1f} MB, from {directory}"


def build_all() -> Iterator[str]:
    """Build what is not on disk; the lines of a report."""
    if not background.is_allowed():
        raise AdjointError(
            "there is no C compiler, or ADJOINT_NATIVE=0 forbids native code; install gcc or clang"
        )
    yield f"compiler   {build.compiler()}"
    yield f"kept in    {build.cache_directory()}"
    sources = [*loading.sources(), *_of_rows()]
    wanted = [source for source in sources if not build.is_built(source)]
    for start in bar(range(0, len(wanted), _AT_ONCE), "building", True):
        build.build_all(wanted[start : start + _AT_ONCE])
    yield f"built      {len(wanted)}"
    yield f"ready      {len(sources)} libraries: {len(sources) - len(wanted)} were there"
    used = sum(size for _, size, _ in cachedir.files(build.cache_directory()))
    yield f"on disk    {used / 1e6:.0f} MB of at most {cachedir.limit() / 1e6:.0f}"


def _of_rows() -> Iterator[str]:
    """The sources of kernels of elements, for arguments with their defaults."""
    for name in TABLE.names():
        for overload in TABLE.overloads(name):
            row = TABLE.row(name, overload)
            if row_loops.has_text(row):
                yield from row_loops.RowLoops(row).sources()
