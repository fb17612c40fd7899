"""Telling the user which operator of theirs an error in backward belongs to.

Every error that leaves a node gets a note that names the operator and the line of its forward call.
In anomaly mode a warning shows the whole traceback of that call; if a backward pass made the node,
also the traceback of the node whose backward made it.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.core.dtypes import DIFFERENTIABLE
from adjoint.core.errors import GradError
from adjoint.core.source_lines import show_place, source_of
from adjoint.core.state import current
from adjoint.tensor.nodes import Node


def context(node: Any) -> str:
    """'in backward of MulBackward0, recorded at model.py:12: y = x * w'."""
    if not isinstance(node, Node):
        return "in backward"
    if node.place is None:
        return f"in backward of {node.rule.name}"
    text = source_of(node.place)
    line = f": {text}" if text else ""
    return f"in backward of {node.rule.name}, recorded at {show_place(node.place)}{line}"


def explain(error: BaseException, node: Node) -> None:
    """Add a note that names the operator, and in anomaly mode warn with its forward call."""
    if not isinstance(error, GradError):
        error.add_note(context(node))
    if current().anomaly:
        for text in _traces(node):
            _warn(text)


def _traces(node: Node) -> list[str]:
    """The forward call of a node, then of the node whose backward made it, and so on."""
    found: list[str] = []
    name, current = "", node
    while current is not None:
        start = f"Error detected in {current.name()}. " if not name else ""
        made = (
            f"Previous calculation was induced by {current.name()}. "
            f"Traceback of forward call that induced {name}:\n"
            if name
            else "Traceback of forward call that caused the error:\n"
        )
        extra = current.extra
        if extra is None or extra.trace is None:
            found.append(
                f"{start}No forward pass information is available for {current.name()}: turn "
                "anomaly detection on before the forward pass."
            )
            break
        found.append(f"{start}{made}{''.join(traceback.format_list(extra.trace))}")
        name, current = current.name(), extra.parent
    return found


def _warn(text: str) -> None:
    """Warn; where warnings are errors, print to standard error: the real error must be raised."""
    try:
        warnings.warn(text, UserWarning, stacklevel=2)
    except UserWarning:
        sys.stderr.write(f"{text}\n")


def check_nan(node: Node, sent: Sequence[Any]) -> None:
    """Raise if a node made a NaN, in anomaly mode."""
    if not current().check_nan:
        return
    for number, value in enumerate(sent):
        array = getattr(value, "value", value)
        if (
            isinstance(array, (np.ndarray, np.generic))
            and array.dtype in DIFFERENTIABLE
            and np.isnan(array).any()
        ):
            raise GradError(
                f"{node.rule.name} returned NaN as gradient of its input {number} ({context(node)})"
            )
