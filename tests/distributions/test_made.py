"""Distributions that are made from a table are classes like those that are written out."""

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
from adjoint import distributions as dist
from adjoint import doors
from adjoint.distributions import constraints, made

CLASSES = [section.split(".") for section in doors.read(made.TABLE) if section]
TRANSFORMS = ("elements", "arrays")


def home(file: str) -> Any:
    folder = "transforms." * (file in TRANSFORMS)
    return importlib.import_module(f"adjoint.distributions.{folder}{file}")


@pytest.mark.parametrize(("file", "name"), CLASSES)
def test_a_class_is_at_home_in_its_file(file: str, name: str) -> None:
    value = getattr(home(file), name)
    assert (value.__module__, value.__qualname__) == (home(file).__name__, name)
    assert pickle.loads(pickle.dumps(value)) is copy.copy(value) is value
    if not name.startswith("_"):
        assert ">>> import adjoint as ad\n" in value.__doc__
    methods = ("_call", "_inverse") if file in TRANSFORMS else ("log_prob", "rsample", "sample")
    for method in (value.__init__, *(getattr(value, method) for method in methods)):
        assert "return" in typing.get_type_hints(inspect.unwrap(method))
        assert "self" in inspect.signature(method).parameters


@pytest.mark.parametrize(("file", "name"), [(f, n) for f, n in CLASSES if not n.startswith("_")])
def test_an_error_names_the_class_that_was_called(file: str, name: str) -> None:
    with pytest.raises(TypeError, match=rf"\b{name}\b"):
        getattr(home(file), name)(no_such_argument=1.0)


def test_parameters_with_constraints_are_kept_but_for_those_with_a_row() -> None:
    chi2 = dist.Chi2(3.0)
    assert vars(dist.Normal(0.0, 1.0)).keys() >= {"loc", "scale"}
    assert "df" not in vars(chi2)
    assert chi2.df == 3.0
    assert chi2.arg_constraints == {"df": constraints.positive}


def test_a_support_that_knows_an_instance_is_dependent() -> None:
    assert not constraints.is_dependent(dist.Normal.support)
    for kind, is_discrete, event_dim in (
        (dist.Uniform, False, 0),
        (dist.Binomial, True, 0),
        (dist.Multinomial, True, 1),
    ):
        support: Any = kind.support
        assert constraints.is_dependent(support)
        assert (support.is_discrete, support.event_dim) == (is_discrete, event_dim)


def test_a_row_computes_in_double_where_it_says_so() -> None:
    assert dist.Weibull.log_prob.rounds is ad.float64
    assert dist.Normal.log_prob.rounds is ad.float32
    assert not hasattr(dist.Normal.rsample, "rounds")


def test_a_traceback_shows_the_row() -> None:
    with pytest.raises(Exception, match="log_prob|special_ndtri|str") as raised:
        dist.Normal(0.0, 1.0).icdf("1")  # type: ignore[arg-type]
    (entry,) = (e for e in raised.traceback if str(e.path) == made.TABLE)
    row = Path(made.TABLE).read_text(encoding="utf-8").splitlines()[entry.lineno]
    assert row == "icdf(value) = loc + scale * special_ndtri(value)"


def test_classes_of_a_file_know_one_another() -> None:
    relaxed = home("relaxed")
    made_now = relaxed.RelaxedBernoulli(0.5, probs=ad.tensor(0.5))
    assert type(made_now.base_dist) is relaxed.LogitRelaxedBernoulli
    assert {*relaxed.__all__} == {*dir(relaxed)}
    with pytest.raises(AttributeError, match="did you mean RelaxedBernoulli"):
        relaxed.RelaxedBernouli
