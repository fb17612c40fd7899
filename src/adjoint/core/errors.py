"""The exceptions of adjoint.

Every one derives from `AdjointError` and from the built-in exception that a user would expect, so
that `except ValueError` and `except AdjointError` both work. A message says what was asked, what
was got and what to do, in the user's words, the user's call first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from adjoint.core.lazy import Lazy
from adjoint.core.source_lines import called_functions

difflib = Lazy("difflib")  # needed for errors only


# The operator's name at the start of a message: "matmul" in "matmul(a, b): a has …"
_NAMED = re.compile(r"\w+(?=[(:])")
_NAMESPACES = ("linalg", "fft", "special")  # users write linalg.solve for linalg_solve


class AdjointError(Exception):
    """Base of all errors raised by adjoint."""

    def __str__(self) -> str:
        """Begin the message with the user's function: conv2d, not the convolution inside."""
        text = super().__str__()
        named = _NAMED.match(text)
        if named is None or self.__traceback__ is None:
            return text
        called = called_functions(self.__traceback__)
        outer = next((name for name in called if not name.startswith("_")), None)
        inside = any(name.startswith(named[0]) for name in called)  # nll_loss, of nll_loss_forward
        if outer is None or outer == named[0] or not inside:
            return text
        space, _, rest = outer.partition("_")
        shown = f"{space}.{rest}" if space in _NAMESPACES and rest else outer
        # Drop arguments in parentheses: they belong to the inner operator.
        return f"{shown}: {text}" if text[named.end()] == "(" else shown + text[named.end() :]


class ShapeError(AdjointError, ValueError, RuntimeError):
    """Sizes that do not fit the operator. Also a RuntimeError, as in PyTorch."""


class DependsOnValues(ShapeError):
    """A shape that is asked for without data and that only the data can tell: nonzero, masks."""


class NoData(DependsOnValues, NotImplementedError):
    """The values of a tensor that has a shape alone. Also a NotImplementedError, as in PyTorch."""


class DimensionError(AdjointError, IndexError):
    """A dimension outside the tensor's range."""


class IndexOutOfRange(AdjointError, IndexError, RuntimeError):
    """An index outside the dimension it indexes. Also a RuntimeError, as of PyTorch's kernels."""


class DtypeError(AdjointError, TypeError, RuntimeError):
    """A dtype that the operator does not take. Also a RuntimeError, as in PyTorch."""


class ArgumentError(AdjointError, TypeError):
    """Arguments that no overload of the operator accepts."""


class DeviceError(ArgumentError, RuntimeError):
    """A device that is not there, or a name that names none."""


class ValueRangeError(AdjointError, ValueError, RuntimeError):
    """An argument of the right type with a value that makes no sense."""


class NumberRangeError(ValueRangeError, OverflowError):
    """A number beyond those that a dtype has. Also an OverflowError, as in NumPy."""


class OutOfMemory(AdjointError, RuntimeError, MemoryError):
    """A result that does not fit into memory. Also a RuntimeError, as in PyTorch."""


class ExchangeError(AdjointError, BufferError, ValueError, RuntimeError):
    """Memory that another library cannot have, or that it offers and we cannot take (DLPack)."""


class GradError(AdjointError, RuntimeError):
    """A derivative that was asked for and cannot be given."""


class DegenerateError(GradError):
    """A derivative at repeated values, which a graph cannot give; eager mode can."""


class NotDifferentiable(GradError):
    """The operator has no derivative in that argument."""


class MissingRule(GradError, NotImplementedError):
    """A method that a user's function must have and has not."""


class OutsideContext(GradError, AssertionError):
    """A derivative that must be taken inside the block in which its graph was made."""


class CheckpointError(GradError):
    """A checkpointed function that does something else when it runs again."""


class InplaceError(AdjointError, RuntimeError):
    """A write in place that would corrupt a value or a derivative."""


class RandomnessError(AdjointError, RuntimeError):
    """Random numbers are drawn where nobody said whether samples share them."""


class TableError(AdjointError, ValueError):
    """A row of the table of derivatives that does not make sense; says `file:line`."""


class MissingOperator(AdjointError, AttributeError):
    """An operator or overload that the table does not have."""


class NameTaken(AdjointError, KeyError):
    """A name that a module cannot give to a parameter, a buffer or a submodule."""

    __str__ = Exception.__str__  # KeyError's own writes the message as a literal


class StateError(AdjointError, RuntimeError):
    """A saved state that does not fit the module that is to take it."""


class HookError(AdjointError, RuntimeError):
    """A hook that returned what it must not, or that cannot be registered."""


class DatasetError(AdjointError, AssertionError, ValueError, TypeError):
    """Datasets that cannot be put together. Also an AssertionError, as in PyTorch."""


class FileError(AdjointError, RuntimeError, ValueError):
    """A file that is damaged, of no known format, or that holds what is not read or written."""


class LinAlgError(ValueRangeError, np.linalg.LinAlgError):
    """A matrix without the property that was asked for: singular, not positive definite, …"""


_NEARLY = 0.15  # names less similar than the best by at most this are suggested, too


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar known names, if any are similar.

    >>> did_you_mean("sinn", ("sin", "cos"))
    '; did you mean sin?'
    """
    close = difflib.get_close_matches(name, list(known), 3) if len(name) < 100 else []
    near = [difflib.SequenceMatcher(None, each, name).ratio() for each in close]
    close = [each for each, ratio in zip(close, near, strict=True) if ratio > near[0] - _NEARLY]
    return f"; did you mean {' or '.join(close)}?" if close else ""
