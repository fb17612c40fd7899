"""Modules that are made from a table are classes like those that are written out."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import doors
from adjoint.nn.modules import made

ROWS = [(section, name) for section, rows in doors.read(made.TABLE).items() for name in rows]


def found(section: str, name: str) -> Any:
    return getattr(importlib.import_module(f"adjoint.nn.modules.{section}"), name)


@pytest.mark.parametrize(("section", "name"), ROWS)
def test_a_class_is_at_home_in_its_file(section: str, name: str) -> None:
    value = found(section, name)
    assert (value.__module__, value.__qualname__) == (f"adjoint.nn.modules.{section}", name)
    assert pickle.loads(pickle.dumps(value)) is copy.copy(value) is value
    if not name.startswith("_"):
        assert getattr(ad.nn, name) is value
        assert ">>> import adjoint as ad\n" in value.__doc__
    for method in (value.__init__, value.forward):
        assert "return" in typing.get_type_hints(method)
        assert "self" in inspect.signature(method).parameters


def test_attributes_that_are_set_later_act() -> None:
    dropout, relu, pool = ad.nn.Dropout(1.0), ad.nn.ReLU(), ad.nn.MaxPool2d(2)
    dropout.p, relu.inplace, pool.kernel_size, pool.stride = 0.0, True, 1, 1
    x = ad.tensor([[[-1.0, 2.0]]])
    assert dropout(x).tolist() == pool(x).tolist() == x.tolist()
    assert relu(x) is x
    assert repr(relu) == "ReLU(inplace=True)"


def test_a_subclass_calls_the_constructor() -> None:
    class Steep(ad.nn.LeakyReLU):
        def __init__(self) -> None:
            super().__init__(2.0)

    assert repr(Steep()) == "Steep(negative_slope=2.0)"
    with pytest.raises(ValueError, match=r"^Half\(p=2\): a probability"):
        type("Half", (ad.nn.Dropout,), {})(2)


def test_a_traceback_shows_the_row() -> None:
    with pytest.raises(Exception, match="channel_shuffle") as raised:
        ad.nn.ChannelShuffle(3)(ad.ones(1, 4, 2, 2))
    (entry,) = (e for e in raised.traceback if str(e.path) == made.TABLE)
    row = Path(made.TABLE).read_text(encoding="utf-8").splitlines()[entry.lineno]
    assert row.startswith("ChannelShuffle(groups: int) = ")


def test_names_are_listed() -> None:
    scope: dict[str, Any] = {}
    exec("from adjoint.nn.modules.loss import *", scope)
    loss = importlib.import_module("adjoint.nn.modules.loss")
    assert scope.keys() - {"__builtins__"} == {*loss.__all__} == {*dir(loss)}
    assert {*loss.__all__} < {*dir(ad.nn)}
    with pytest.raises(AttributeError, match="did you mean MSELoss"):
        loss.MSELos


def test_threads_get_the_same_class() -> None:
    program = """if True:
        import threading, adjoint as ad
        from adjoint.nn.modules import loss
        got, start = [], threading.Barrier(8)
        def ask(): start.wait(); got.append(loss.CrossEntropyLoss)
        threads = [threading.Thread(target=ask) for _ in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        print(len(got), len(set(got)))
    """
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("8 1\n", "")


def test_a_process_that_uses_other_modules_makes_none() -> None:
    program = (
        "import adjoint as ad; ad.nn.Linear; from adjoint.nn.modules import loss, pooling;"
        "print([n for m in (loss, pooling) for n in vars(m) if n in dir(m)])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
