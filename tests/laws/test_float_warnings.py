"""Infinities and NaN are results: nothing warns or raises, whatever the filters and error state."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.float_warnings import NO_MODULE, hush_modules

X = ad.tensor([0.0, 1.0, -1.0], dtype=ad.float64)
INF = float("inf")

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "log": ad.log,
    "x / 0": lambda x: x / 0,
    "1 / x": lambda x: 1 / x,
    "sqrt": ad.sqrt,
    "pow": lambda x: x**-1.5,
    "exp": lambda x: ad.exp(x * 1e4),
    "digamma": ad.digamma,
    "logit": ad.logit,
    "acos": lambda x: ad.acos(x * 2),
    "atanh": ad.atanh,
    "sum": lambda x: (x / 0).sum(),
    "std of one": lambda x: x[:1].std(),
    "mean of none": lambda x: x[:0].mean(),
    "softmax": lambda x: (x * INF).softmax(0),
    "dot": lambda x: (x * INF).dot(x),
    "cumsum": lambda x: (x * INF).cumsum(0),
    "remainder": lambda x: x % 0,
    "norm": lambda x: (x * 1e200).norm(),
    "igamma": lambda x: ad.igamma(x, x),
    "in place": lambda x: x.clone().mul_(INF),
    "prod": lambda x: (x * 1e300).prod(),
    "float16": lambda x: (x.half() * 1e5).double(),
}


def _total(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x).sum()


def _backward(function: Callable[[Any], Any], x: Any) -> None:
    leaf = x.clone().requires_grad_()
    _total(function)(leaf).backward()


WAYS: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "eager": lambda f, x: f(x),
    "backward": _backward,
    "grad of grad": lambda f, x: ad.grad(lambda v: ad.grad(_total(f))(v).sum())(x),
    "jvp": lambda f, x: ad.jvp(f, (x,), (x,)),
    "vmap": lambda f, x: ad.vmap(f)(ad.stack([x, x])),
    "traced": lambda f, x: ad.trace(ad.grad(_total(f)), x)(x),
    "compiled": lambda f, x: ad.compile(f)(x),
}


@contextlib.contextmanager
def _recorded() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
    assert not found, [str(w.message) for w in found]


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


SETTINGS: dict[str, Callable[[], Any]] = {
    "warnings are recorded": _recorded,
    "warnings are errors": _errors,
    "NumPy raises": lambda: np.errstate(all="raise"),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("way", WAYS)
def test_no_warning_of_infinities(way: str, setting: str) -> None:
    for function in FUNCTIONS.values():
        with SETTINGS[setting]():
            WAYS[way](function, X)


def test_users_are_warned_of_their_own() -> None:
    ad.log(X)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.log(np.zeros(1))


def test_errors_in_backward_name_the_users_line() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match=r"test_float_warnings\.py"):
        y.sum().backward()


def test_a_module_that_is_being_imported_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it defines afterwards is known by that name: threads may ask for operators first."""
    begins, goes_on = threading.Event(), threading.Event()
    monkeypatch.setattr(threading, "slow_import", (begins, goes_on), raising=False)
    (tmp_path / "slow_rules").mkdir()
    (tmp_path / "slow_rules" / "__init__.py").write_text("")
    (tmp_path / "slow_rules" / "family.py").write_text(
        "import threading\n"
        "begins, goes_on = threading.slow_import\n"
        "begins.set()\n"
        "assert goes_on.wait(60)\n"
        "def rule():\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    other = threading.Thread(target=importlib.import_module, args=("slow_rules.family",))
    other.start()
    assert begins.wait(60)
    hush_modules("slow_rules")
    goes_on.set()
    other.join(60)
    module = sys.modules["slow_rules.family"]
    assert module.rule.__module__ == "slow_rules.family"
    hush_modules("slow_rules")
    assert module.__name__ is NO_MODULE
