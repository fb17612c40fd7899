"""The user's line: the nearest call outside this package, for errors, warnings and graphs.

Errors, warnings and graphs all find the line of the user's program here, so none of our own files
is ever named.
"""

from __future__ import annotations

import linecache
import sys
import threading
import warnings
from types import CodeType
from typing import Any

from adjoint.core.float_warnings import NO_MODULE
from adjoint.core.remembering import Bounded
from adjoint.core.texts import in_comment

# code object and instruction of a caller; for an operator of a graph the line where it was traced:
# "model.py:12"
CallSite = tuple[CodeType, int] | str


# Libraries that compute with arrays: their code is not the user's.
LIBRARIES = frozenset(("matplotlib", "numpy", "pandas", "scipy", "sklearn", "statsmodels"))


class _Inherited(threading.local):
    """The place for nodes that our own code records on behalf of an operator: its forward call."""

    place: CallSite | None = None


inherited = _Inherited()

# The globals of the user's module that was found last, in a list: most calls come from the same
# module, and comparing globals is quicker than reading the module's name.
of_user: list[Any] = [None]


def is_ours(frame: Any) -> bool:
    """Whether a frame runs code of this package, its command line included."""
    names = frame.f_globals
    name = names.get("__name__", "")
    if name is NO_MODULE:
        return True
    if name == "__main__":
        return names.get("__package__") == "adjoint"
    return name.startswith("adjoint.") or name == "adjoint"


def place_of(frame: Any) -> CallSite | None:
    """The place of the first user's frame from `frame` outwards, or an inherited place before."""
    known = of_user[0]
    while frame is not None:
        names = frame.f_globals
        name = names.get("__name__", "")
        ours = name is NO_MODULE or name[:8] == "adjoint."  # decides most frames without a call
        if names is known or not (ours or is_ours(frame)):
            of_user[0] = names
            return frame.f_code, frame.f_lasti
        if inherited.place is not None:
            return inherited.place
        frame = frame.f_back
    return None


def called_functions(traceback: Any) -> list[str]:
    """Operators and functions that ran between the user's line and an error, outermost first."""
    found: list[str] = []
    while traceback is not None:
        frame, traceback = traceback.tb_frame, traceback.tb_next
        if not is_ours(frame):
            found = []
        elif name := _function_of(frame):
            found.append(name)
    return found


def _function_of(frame: Any) -> str:
    """The operator whose function a frame runs, or the function of nn.functional: a row or not."""
    file, name = frame.f_code.co_filename, frame.f_code.co_name
    if file.startswith("<adjoint "):  # generated for a row: <adjoint select.int select_int>
        return file.split()[1].partition(".")[0]
    module = str(frame.f_globals.get("__name__"))
    if module == "adjoint.nn.functional":  # of a row
        return name
    return name if module.startswith("adjoint.nn.functional.") and name in frame.f_globals else ""


def caller() -> CallSite | None:
    """The place in the user's code that led to the function which calls this."""
    return place_of(sys._getframe(1))


def _line(place: tuple[CodeType, int]) -> int:
    code, instruction = place
    lines = (n for a, b, n in code.co_lines() if a <= instruction < b and n is not None)
    return next(lines, code.co_firstlineno)


def show_place(place: CallSite | None) -> str:
    """Write a place as file:line."""
    if place is None:
        return "an unknown place"
    if isinstance(place, str):
        return place
    return f"{in_comment(place[0].co_filename.rsplit('/', 1)[-1])}:{_line(place)}"


def user_line() -> str:
    """The user's line as text: "model.py:12"; "" if there is none."""
    found = place_of(sys._getframe(1))
    if found is None or isinstance(found, str):
        return found or ""
    shown = _LINES.get(found)
    if shown is None:
        shown = _LINES[found] = show_place(found)
    return shown


_LINES: Bounded[CallSite, str] = Bounded(100_000)


def source_of(place: CallSite | None) -> str:
    """The source text of the line of a place; "" if it cannot be found."""
    if place is None or isinstance(place, str):
        return ""
    return linecache.getline(place[0].co_filename, _line(place)).strip()


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn the user at the line that called us."""
    frame, level = sys._getframe(1), 2
    while frame is not None and is_ours(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
