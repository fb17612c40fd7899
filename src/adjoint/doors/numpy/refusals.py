"""Messages where a value is about to leave a derivative: who asked for it, and the way out.

NumPy and SciPy ask for an array, or for a float, from C or from Python of theirs. The message names
the user's line, what stands there, and the function of the library, with what to write instead.
"""

from __future__ import annotations

import dis
import linecache
import sys
from collections.abc import Iterator
from typing import Any

from adjoint.core.importing import imported
from adjoint.core.records import record
from adjoint.core.source_lines import LIBRARIES, is_ours

STORES = frozenset(dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap)
_LONGEST = 60  # of an expression of the user's

_LISTS = (
    "Use np.stack([x, y]) for np.array([x, y]), adjoint.numpy for functions that NumPy does not "
    "hand on to tensors, adjoint.scipy.stats for SciPy's distributions"
)
_BUFFER = (
    "an array of NumPy's own holds plain numbers, and would forget the derivative. Make it with "
    "np.zeros_like(x), which is an array like x; or collect the values in a list and np.stack "
    "them; or write `import adjoint.numpy as np`, whose arrays hold such values"
)
# The way out by the beginning of a function's name, the longest first; {0} is the function.
_WAYS = {
    "scipy.fft": "np.fft has the transforms, and takes such values",
    "scipy.integrate": (
        "a loop of steps, ad.scan or np.trapezoid in its place can be differentiated "
        "(docs/howto/scipy.md: Through a differential equation)"
    ),
    "scipy.interpolate": "np.interp takes such values; where the interpolation is linear in the "
    "values, compute its matrix from unit vectors outside, and multiply",
    "scipy.linalg": "np.linalg, ad.linalg and adjoint.scipy.linalg take such values",
    "scipy.ndimage": "np.convolve and ad.nn.functional.conv2d take such values",
    "scipy.optimize": (
        "give the solver derivatives from outside (jac=ad.grad(f)); for the derivative of the "
        "solution itself use ad.custom_root"
    ),
    "scipy.signal": "np.convolve, np.fft and ad.nn.functional.conv1d take such values",
    "scipy.sparse": "ad.sparse_csr_tensor and ad.sparse.spsolve take such values",
    "scipy.sparse.linalg": "ad.sparse.spsolve and ad.custom_linear_solve take such values",
    "scipy.spatial": "ad.cdist takes such values",
    "scipy.special": "there is no operator for it; ad.special has others",
    "scipy.stats": "adjoint.scipy.stats has SciPy's distributions for such values",
}
_EVERYWHERE = (
    "SCIPY_ARRAY_API=1 lets some of SciPy's functions take tensors (docs/array_api.md), and "
    "ad.custom_vjp gives it rules of your own"
)


@record
class Asked:
    """Who asked for the values of a tensor."""

    place: str  # "model.py:12"
    text: str  # what stands there: "np.array([x[0], x[1]])"
    function: str  # the function of a library: "scipy.interpolate.CubicSpline"; "" if none
    stores: bool  # whether an assignment such as out[i] = x asked

    @property
    def where(self) -> str:
        """The beginning of a message."""
        return "".join(f"{part}: " for part in (self.place, self.text) if part)


def _frames(frame: Any) -> Iterator[Any]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _package(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def asked() -> Asked:
    """The user's line that is running, and the function of a library that was called there."""
    inside: list[Any] = []  # frames of libraries, the innermost first
    for frame in _frames(sys._getframe(1)):
        if is_ours(frame):
            if inside:  # a solver of SciPy's that calls a transform, say
                break
            continue
        if _package(frame) in LIBRARIES:
            inside.append(frame)
            continue
        stores = not inside and frame.f_code.co_code[frame.f_lasti] in STORES
        place = f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
        file, line = frame.f_code.co_filename, frame.f_lineno
        text = linecache.getline(file, line) if stores else _text(frame)
        return Asked(place, _short(text), _public(inside), stores)
    return Asked("", "", _public(inside), False)


def _text(frame: Any) -> str:
    """The expression that a frame is computing, as it is written; nothing if that is not known."""
    code = frame.f_code
    positions = list(code.co_positions())
    line, last, start, stop = positions[frame.f_lasti // 2]
    if line is None or last is None or start is None or stop is None:
        return ""
    lines = [linecache.getline(code.co_filename, n) for n in range(line, last + 1)]
    if not all(lines):
        return ""
    if len(lines) == 1:
        text = lines[0].encode()[start:stop].decode(errors="replace")
    else:
        text = lines[0].encode()[start:].decode(errors="replace").strip() + " …"
    return text


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _public(frames: list[Any]) -> str:
    """The outermost function of a library, by the name that users know."""
    home = ""
    for frame in reversed(frames):
        module = str(frame.f_globals.get("__name__", ""))
        parts = module.split(".")
        hidden = next((i for i, part in enumerate(parts) if part.startswith("_")), len(parts))
        home, name = ".".join(parts[:hidden]), frame.f_code.co_qualname
        name = name.removesuffix(".__init__").removesuffix(".__call__")
        if hasattr(sys.modules.get(home), name.partition(".")[0]):
            return f"{home}.{name}"
    return home if frames and not home.startswith("numpy") else ""


def _way_out(function: str) -> str:
    """The advice that replaces a function of a library."""
    home, _, name = function.rpartition(".")
    ours = home.replace("scipy", "adjoint.scipy", 1)
    if home in ("scipy.linalg", "scipy.stats", "scipy.special") and name in dir(imported(ours)):
        return f"use {ours}.{name}, which takes such values"
    found = max((p for p in _WAYS if f"{function}.".startswith(f"{p}.")), key=len, default="")
    return f"{_WAYS[found]}; {_EVERYWHERE}" if found else _EVERYWHERE


def of_array(why: str) -> str:
    """The message where somebody asks for an array; `why` there is none."""
    found = asked()
    if found.stores:
        return f"{found.where}{_BUFFER}"
    if found.function and not found.function.startswith("numpy."):
        return (
            f"{found.where}{found.function} computes with arrays alone, and would forget the "
            f"derivative ({why}): {_way_out(found.function)}; x.detach() for the values alone"
        )
    return f"{found.where}{why}. {_LISTS}, or x.detach() for the values alone"


def of_written() -> str:
    """The message where an assignment to an array of NumPy's own asks; nothing if none does."""
    found = asked()
    return f"{found.where}{_BUFFER}" if found.stores else ""


def of_number(what: str, transform: str) -> str:
    """The message where somebody asks for a number that would silently become a constant."""
    found = asked()
    if found.stores:
        return f"{found.where}{_BUFFER}"
    message = (
        f"{found.where}{what} inside {transform}: the number would be a constant for the derivative"
    )
    if found.function:
        return f"{message}, which {found.function} wants: {_way_out(found.function)}"
    return (
        f"{message}. Use adjoint's operators on the tensor, or NumPy's functions on the array "
        "(np.sin for math.sin), or detach() it if a constant is meant"
    )
