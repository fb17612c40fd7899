"""NumPy's protocols: what `np.sin(x)`, `np.sum(x, axis=0)` and `array * x` do with tensors.

A tensor answers `__array_ufunc__` and `__array_function__` by the table of names. What has no row
raises, so that nothing leaves the library, and a derivative, unseen.

`array * x` and `np.multiply(array, x)` come here alike. So that `array * x` is what `x * array`
is, ufuncs that are Python's operators promote as tensors do, and NumPy's scalars count as numbers;
all others compute in the dtypes that NumPy chooses.

Note [Libraries that compute with arrays]. SciPy's optimisers ask `np.atleast_1d(gradient)` and hand
the result to compiled code, which wants an array. So where one of these libraries calls NumPy with
tensors that nobody differentiates or traces, it gets what it expects: arrays. A buffer like a
tensor (`np.empty_like(condition)`) is a tensor even there: what is written to it next may have a
derivative.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.errors import ArgumentError, did_you_mean
from adjoint.core.source_lines import LIBRARIES
from adjoint.doors.numpy import reading, refusals
from adjoint.doors.numpy.conversion import Number
from adjoint.doors.numpy.ufuncs import Ufunc
from adjoint.homes.arrays import Operands, ndarray, result_of
from adjoint.homes.structures import DressedTensor
from adjoint.tensor.tensor import Tensor

# Ufuncs that are Python's operators: the method of the tensor on the left, and on the right.
_OPERATORS: dict[np.ufunc, tuple[str, str]] = {
    **{getattr(np, ufunc): (f"__{name}__", f"__r{name}__") for ufunc, name in (
        ("add", "add"), ("subtract", "sub"), ("multiply", "mul"), ("divide", "truediv"),
        ("floor_divide", "floordiv"), ("remainder", "mod"), ("power", "pow"), ("divmod", "divmod"),
        ("bitwise_and", "and"), ("bitwise_or", "or"), ("bitwise_xor", "xor"), ("matmul", "matmul"),
    )},
    **{getattr(np, ufunc): (f"__{name}__", f"__{mirrored}__") for ufunc, name, mirrored in (
        ("equal", "eq", "eq"), ("not_equal", "ne", "ne"), ("less", "lt", "gt"),
        ("less_equal", "le", "ge"), ("greater", "gt", "lt"), ("greater_equal", "ge", "le"),
    )},
}  # fmt: skip
_BUFFERS = frozenset((np.empty_like, np.full_like, np.ones_like, np.zeros_like))
_CALLERS: dict[str, bool] = {}  # whether the module of that name is of such a library
_OF_TENSORS = vars(sys.modules[Tensor.__module__])
_TABLES = {
    "numpy": "",
    "numpy.fft": "fft",
    "numpy.lib.stride_tricks": "stride_tricks",
    "numpy.linalg": "linalg",
}  # of the modules of NumPy
_UFUNCS: dict[np.ufunc, Ufunc] = {}
_FUNCTIONS: dict[Any, Any] = {}
_OF_ARRAYS: dict[Any, Any] = {}
_CALLS: dict[np.ufunc, Any] = {}  # the plain calls of ufuncs


def array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
    """NumPy's call of a ufunc, or of one of its methods, with a tensor among the arguments."""
    if _by_a_library() and _is_value((inputs, keywords)):
        plain = _arrays(inputs)
        return getattr(ufunc, method)(*plain, **{k: _arrays(v) for k, v in keywords.items()})
    if method == "__call__" and not keywords:
        call = _CALLS.get(ufunc)
        return (call or _call(ufunc))(*inputs)
    ours = _ufunc(ufunc)
    if method == "__call__":
        return ours(*inputs, **keywords)
    if method == "at":
        return ours.at(*inputs)
    keywords = {k: v[0] if k == "out" else v for k, v in keywords.items()}
    return getattr(ours, method)(*inputs, **keywords)


def _call(ufunc: np.ufunc) -> Any:
    """The function of a plain call."""
    ours = _ufunc(ufunc)
    if ufunc in _OPERATORS:
        call = _as_operator(*_OPERATORS[ufunc])
    elif ufunc.nin == 1:
        call = _of_one(ours)
    else:
        call = ours
    _CALLS[ufunc] = call
    return call


def _as_operator(left: str, right: str) -> Any:
    def operator(a: Any, b: Any) -> Any:
        if isinstance(a, Tensor):
            return getattr(a, left)(b if type(b) is Tensor else Number(b))
        return getattr(b, right)(Number(a))

    return operator


def _of_one(ours: Ufunc) -> Any:
    """The short way of `np.sin(x)`: nothing is converted if the tensor has floats."""
    function, of = ours.function, ours.of

    def of_one(x: Any) -> Any:
        return function(x) if x.dtype.is_differentiable else of([x])

    return of_one


def _ufunc(ufunc: np.ufunc) -> Ufunc:
    found = _UFUNCS.get(ufunc)
    if found is None:
        found = _UFUNCS[ufunc] = _find_ufunc(ufunc)
    return found


def _find_ufunc(ufunc: np.ufunc) -> Ufunc:
    name = ufunc.__name__
    for module in ("", "special"):
        row = reading.TABLES[module].get(name)
        if row is not None and reading.is_ufunc(row) and reading.their_ufunc(module, name) is ufunc:
            return reading.function(module, name)
    home = "np" if getattr(np, name, None) is ufunc else "scipy.special"
    raise _without_operator(f"{home}.{name}")


def array_function(self: Tensor, function: Any, types: Any, args: Any, keywords: Any) -> Any:
    """NumPy's call of a function with a tensor among the arguments."""
    if _by_a_library() and function not in _BUFFERS and _is_value((args, keywords)):
        return function(*_arrays(args), **{k: _arrays(v) for k, v in keywords.items()})
    found = _FUNCTIONS.get(function)
    if found is None:
        found = _FUNCTIONS[function] = _find_function(function, reading.of_tensors)
    return found(*args, **keywords)


def array_ufunc_of_arrays(
    self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any
) -> Any:
    """NumPy's call of a ufunc with an array of ours, or a number, among the arguments."""
    if _by_a_library() and _is_value((inputs, keywords)):
        plain = _arrays(inputs)
        return getattr(ufunc, method)(*plain, **{k: _arrays(v) for k, v in keywords.items()})
    ours = _ufunc(ufunc)
    if method == "__call__":
        x = inputs[0]
        if ufunc.nin == 1 and not keywords and isinstance(x, ndarray) and x.memory is None:
            tensor = x.value  # the short way
            found = ours.function(tensor) if tensor.dtype.is_differentiable else ours.of([tensor])
            return result_of(found) if type(found) is Tensor else Operands().arrays_of(found)
        return ours(*inputs, **keywords)
    if method == "at":
        return ours.at(*inputs)
    keywords = {k: v[0] if k == "out" else v for k, v in keywords.items()}
    return getattr(ours, method)(*inputs, **keywords)


def array_function_of_arrays(self: Any, function: Any, types: Any, args: Any, keywords: Any) -> Any:
    """NumPy's call of a function with an array of ours, or a number, among the arguments."""
    if _by_a_library() and function not in _BUFFERS and _is_value((args, keywords)):
        return function(*_arrays(args), **{k: _arrays(v) for k, v in keywords.items()})
    found = _OF_ARRAYS.get(function)
    if found is None:
        found = _OF_ARRAYS[function] = _find_function(function, reading.function)
    return found(*args, **keywords)


def _by_a_library() -> bool:
    frame = sys._getframe(2)
    if frame.f_globals is _OF_TENSORS:  # the first call of all comes by the tensor's own method
        frame = frame.f_back
    name = frame.f_globals.get("__name__") or ""  # type: ignore[union-attr]
    known = _CALLERS.get(name)
    if known is None:
        known = _CALLERS[name] = name.partition(".")[0] in LIBRARIES
    return known


def _is_value(argument: Any) -> bool:
    """Whether all tensors in an argument are values that no derivative and no trace follows."""
    if isinstance(argument, Tensor):
        if isinstance(argument, DressedTensor):
            argument = argument.value
        return argument.home is None and argument.edge is None
    if isinstance(argument, dict):
        argument = argument.values()
    elif not isinstance(argument, (tuple, list)):
        return True
    return all(map(_is_value, argument))


def _arrays(argument: Any) -> Any:
    """An argument with arrays in place of tensors."""
    if isinstance(argument, Tensor):
        return argument.array
    if type(argument) in (tuple, list):
        return type(argument)(map(_arrays, argument))
    return argument


def _find_function(function: Any, find: Callable[[str, str], Any]) -> Any:
    home, name = function.__module__ or "numpy", function.__name__
    module = _TABLES.get(home)
    if module is None or name not in reading.TABLES[module]:
        raise _without_operator(f"{home.replace('numpy', 'np', 1)}.{name}", name)
    return find(module, name)


def _without_operator(called: str, name: str = "") -> ArgumentError:
    near = did_you_mean(name, reading.TABLES[""]) if name else ""
    return ArgumentError(
        f"{refusals.asked().where}{called}(tensor): there is no operator for it, so it cannot be "
        f"differentiated or traced{near}; for its value call it with x.detach().numpy(), or give "
        "it rules with ad.custom_vjp"
    )
