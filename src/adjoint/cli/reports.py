"""`adjoint memory` and `adjoint smoothness FILE:FUNCTION --at …`: reports before anything runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import adjoint as ad
from adjoint.cli import functions
from adjoint.cli.parser import add_command


def add_memory(commands: Any) -> None:
    """Describe `adjoint memory`."""
    text = "what the gradient of a function in a file will keep, and why"
    _add(commands, "memory", text, "f32[1000,20]", lambda f, point: ad.memory(f, *point))


def add_smoothness(commands: Any) -> None:
    """Describe `adjoint smoothness`."""
    text = "the operators of a function in a file on which its derivative ends"
    _add(commands, "smoothness", text, "f32[3]", lambda f, point: ad.smoothness(f, *point))


def _add(commands: Any, name: str, text: str, at: str, report: Callable[[Any, Any], Any]) -> None:
    made = add_command(
        commands, name, text, examples=(f"adjoint {name} model.py:loss --at '{at}'",)
    )
    functions.add_function(made)

    def run(args: argparse.Namespace) -> Iterator[str]:
        yield str(report(*functions.given(args)))

    made.set_defaults(run=run)
