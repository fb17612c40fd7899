"""Optimisers that are made from a table are classes like those that are written out."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import typing
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import doors
from adjoint.optim import made
from adjoint.optim.formulas import FormulaOptimizer

CLASSES = [section.split(".") for section in doors.read(made.TABLE) if section]


@pytest.mark.parametrize(("file", "name"), CLASSES)
def test_a_class_is_at_home_in_its_file(file: str, name: str) -> None:
    home = importlib.import_module(f"adjoint.optim.{file}")
    value: Any = getattr(home, name)
    assert name in home.__all__
    assert getattr(ad.optim, name) is value
    assert (value.__module__, value.__qualname__) == (home.__name__, name)
    assert pickle.loads(pickle.dumps(value)) is copy.copy(value) is value
    assert ">>> import adjoint as ad\n" in value.__doc__
    for method in (value.__init__, value.numbers, value.formula, value.step):
        assert "return" in typing.get_type_hints(inspect.unwrap(method))


def test_options_are_the_arguments_of_the_constructor() -> None:
    for _, name in CLASSES:
        kind: Any = getattr(ad.optim, name)
        optimizer = kind([ad.eye(2, requires_grad=True)])
        signature = inspect.signature(kind).parameters
        assert [*optimizer.defaults] == [*[*signature][1:], *kind.settled], name
        assert issubclass(kind, FormulaOptimizer)


def test_settled_options_hold_for_groups_of_older_versions() -> None:
    optimizer = ad.optim.AdamW([ad.ones(2, requires_grad=True)])
    state = optimizer.__getstate__()
    state["param_groups"][0]["decoupled_weight_decay"] = False
    optimizer.__setstate__(state)
    assert optimizer.param_groups[0]["decoupled_weight_decay"] is True


def test_a_subclass_calls_the_constructor() -> None:
    class Slow(ad.optim.AdamW):
        def __init__(self, params: Any) -> None:
            super().__init__(params, lr=1e-5)

    assert Slow([ad.ones(2, requires_grad=True)]).defaults["lr"] == 1e-5
    with pytest.raises(ValueError, match=r"^Slow\(betas=\(0.5, 2\)\): beta 1"):
        type("Slow", (ad.optim.Adam,), {})([ad.ones(2, requires_grad=True)], betas=(0.5, 2))


def test_a_traceback_shows_the_row() -> None:
    x = ad.ones(2, requires_grad=True)
    x.grad = ad.ones(2)
    optimizer = ad.optim.Adadelta([x])
    optimizer.param_groups[0]["rho"] = "much"
    with pytest.raises(TypeError) as raised:
        optimizer.step()
    (entry,) = (e for e in raised.traceback if str(e.path) == made.TABLE)
    row = Path(made.TABLE).read_text(encoding="utf-8").splitlines()[entry.lineno]
    assert row.startswith("numbers(step) = step = step + 1; dict(lr=lr, rho=rho")
