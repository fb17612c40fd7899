"""Functions of Python's numbers, element by element over arrays that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def each(function: Callable[..., Any]) -> Callable[..., Array]:
    """Apply a function of numbers to the elements of arrays; other arguments are passed on.

    A value outside the domain is NaN and one beyond the range infinite, as in NumPy.
    """

    def reference(*args: Any, **kwargs: Any) -> Array:
        given = [*args, *kwargs.values()]
        places = [k for k, v in enumerate(given) if isinstance(v, np.ndarray)]
        arrays = np.broadcast_arrays(*[given[k] for k in places])
        values: list[Any] = []
        for elements in zip(*[a.ravel().tolist() for a in arrays], strict=True):
            for place, element in zip(places, elements, strict=True):
                given[place] = element
            keywords = dict(zip(kwargs, given[len(args) :], strict=True))
            values.append(_value(function, given[: len(args)], keywords))
        return np.array(values).reshape(arrays[0].shape)

    return reference


def _value(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return function(*args, **kwargs)
    except (ValueError, ZeroDivisionError):
        return math.nan
    except OverflowError:
        return math.inf
