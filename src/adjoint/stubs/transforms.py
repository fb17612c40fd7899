"""Stubs of transforms: the types of derivatives, by the types of a function's arguments.

A transform has one signature. Its stub has an overload for each line of a table here, which says
what some of the parameters are, and what the result is then. A parameter whose type has no default
must be given.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from inspect import Parameter, Signature
from types import FunctionType, ModuleType

from adjoint.core.records import record
from adjoint.stubs import operators
from adjoint.stubs.modules import Text

_NAMED = ("A", "B", "First", "L", "M", "N", "P", "Q", "R", "Second", "T", "Ts", "X", "Y")
IMPORTS = {
    **{n: operators.IMPORTS[n] for n in ("Sequence", "Tensor", "TensorLike", "overload")},
    **{name: f"from typing import {name}" for name in ("Any", "Literal", "Unpack")},
    "Callable": "from collections.abc import Callable",
    **{name: f"from adjoint.transforms.annotations import {name}" for name in _NAMED},
}
Overload = tuple[dict[str, str], str]  # ({"f": "Callable[P, R]"}, "Callable[P, R]")


@record
class _Chosen:
    """What a transform is told to differentiate, and what its derivatives are then."""

    function: str  # `{}` is what it returns
    argnums: str
    gradient: str  # of a number or an array it is a tensor, of a tree a tree
    hessian: str


_NO, _YES = "Literal[False] = False", "Literal[True]"
_PAIR = "tuple[Literal[0], Literal[1]]"
_BOTH = "tuple[Tensor, Tensor]"
_CHOSEN = (
    _Chosen("First[P, N, Q, {}]", "Literal[0] = 0", "Tensor", "Tensor"),
    _Chosen("First[P, A, Q, {}]", "Literal[0] = 0", "A", "Any"),
    _Chosen("Second[P, Any, M, Q, {}]", "Literal[1]", "Tensor", "Tensor"),
    _Chosen("Second[P, Any, B, Q, {}]", "Literal[1]", "B", "Any"),
    _Chosen("Second[P, N, M, Q, {}]", _PAIR, _BOTH, f"tuple[{_BOTH}, {_BOTH}]"),
    _Chosen("Second[P, A, B, Q, {}]", _PAIR, "tuple[A, B]", "tuple[Any, Any]"),
    _Chosen("Callable[P, {}]", "int | str = 0", "Any", "Any"),
    _Chosen("Callable[P, {}]", "Sequence[int | str]", "tuple[Any, ...]", "tuple[Any, ...]"),
)


def _derivatives(returned: str, result: str, with_aux: str) -> Iterator[Overload]:
    """The overloads of a transform with `argnums` and `has_aux`, for functions that return this."""
    ways = (
        (returned, _NO, result),
        (_with(returned), _YES, with_aux),
    )
    for output, has_aux, made in ways:
        for chosen in _CHOSEN:
            given = {"f": chosen.function.format(output), "argnums": chosen.argnums}
            derivative = made.format(gradient=chosen.gradient, hessian=chosen.hessian)
            yield given | {"has_aux": has_aux}, f"Callable[P, {derivative}]"
    yield {"f": "Callable[P, Any]"}, "Callable[P, Any]"


def _with(returned: str) -> str:
    return f"tuple[{returned}, X]"


_GRADIENT, _HESSIAN = "{gradient}", "{hessian}"
_JACOBIANS = tuple(_derivatives("TensorLike", _GRADIENT, _with(_GRADIENT)))
_TUPLE = "tuple[Tensor, ...]"
_PULL, _PULL_TREES = f"Callable[..., {_TUPLE}]", "Callable[..., tuple[Unpack[Ts]]]"
_WITH_AUX = {"f": "Callable[..., tuple[R, X]]", "has_aux": _YES}
_WITHOUT = {"f": "Callable[..., R]", "has_aux": _NO}
_TREES = {"primals": "Unpack[Ts]"}
_ARRAYS = {"primals": "TensorLike"}
_ONE, _TWO = "tuple[TensorLike] | list[TensorLike]", "tuple[TensorLike, TensorLike]"
_TENSORS = "Tensor", _TUPLE
_SOURCES = "Source | Iterable[Source]"
_INSIDE = ("TensorLike", "Tensor"), ("T", "T")  # what is given, and what a function gets of it

OVERLOADS: dict[str, dict[str, tuple[Overload, ...]]] = {
    "adjoint.calls.gradients": {
        "grad": (
            ({"inputs": "Mapping[A, Source]"}, "dict[A, Tensor]"),
            ({"inputs": _SOURCES, "allow_unused": "Literal[False] | None = None"}, _TUPLE),
            ({"inputs": _SOURCES}, "tuple[Tensor | None, ...]"),
        ),
    },
    "adjoint.transforms.reverse": {
        "grad": tuple(_derivatives("Any", _GRADIENT, _with(_GRADIENT))),
        "value_and_grad": tuple(
            _derivatives("Any", "tuple[Tensor, {gradient}]", "tuple[tuple[Tensor, X], {gradient}]")
        ),
        "vjp": (
            (_WITHOUT | _ARRAYS, f"tuple[R, {_PULL}]"),
            (_WITHOUT | _TREES, f"tuple[R, {_PULL_TREES}]"),
            (_WITH_AUX | _ARRAYS, f"tuple[R, {_PULL}, X]"),
            (_WITH_AUX | _TREES, f"tuple[R, {_PULL_TREES}, X]"),
        ),
    },
    "adjoint.transforms.jacobians": {
        **dict.fromkeys(("jacfwd", "jacrev", "jacobian"), _JACOBIANS),
        "hessian": tuple(_derivatives("TensorLike", _HESSIAN, _with(_HESSIAN))),
        "jvp": ((_WITHOUT, "tuple[R, R]"), (_WITH_AUX, "tuple[R, R, X]")),
        "linearize": (
            (_WITHOUT, "tuple[R, Callable[..., R]]"),
            (_WITH_AUX, "tuple[R, Callable[..., R], X]"),
        ),
        **dict.fromkeys(
            ("hvp", "gvp"),
            (({"primals": _ONE}, "Tensor"), ({"primals": _TWO}, _BOTH), ({}, "Any")),
        ),
    },
    "adjoint.autograd.functional": {
        "vjp": tuple(
            ({"func": "Callable[..., R]", "inputs": given}, f"tuple[R, {given}]")
            for given in _TENSORS
        ),
        "jvp": (({"func": "Callable[..., R]"}, "tuple[R, R]"),),
        "jacobian": (
            *(({"func": "Callable[..., Tensor]", "inputs": given}, given) for given in _TENSORS),
            ({}, "Any"),
        ),
        "hessian": (
            ({"inputs": "Tensor"}, "Tensor"),
            ({"inputs": _TUPLE}, f"tuple[{_TUPLE}, ...]"),
        ),
        **dict.fromkeys(
            ("hvp", "vhp"),
            tuple(({"inputs": given}, f"tuple[Tensor, {given}]") for given in _TENSORS),
        ),
    },
    "adjoint.transforms.custom": {
        "custom_rule": (
            ({"function": "None = None"}, "Callable[[Callable[P, R]], _Custom[P, R]]"),
            ({"function": "Callable[P, R]"}, "_Custom[P, R]"),
        ),
    },
    "adjoint.func": {
        "grad_and_value": tuple(
            _derivatives("Any", "tuple[{gradient}, Tensor]", "tuple[{gradient}, tuple[Tensor, X]]")
        ),
    },
    "adjoint.compiler.compiled": {
        "compile": (
            ({"function": "None = None"}, "Callable[[Callable[P, R]], Compiled[P, R]]"),
            ({"function": "L"}, "L"),
            ({"function": "Callable[P, R]"}, "Compiled[P, R]"),
        ),
    },
    "adjoint.utils.checkpoint": {
        "checkpoint": (
            ({"function": "None = None"}, "Callable[[Callable[P, R]], Callable[P, R]]"),
            ({"function": "Callable[..., R]"}, "R"),
        ),
    },
    "adjoint.graph.control.scan": {
        "scan": tuple(
            (
                {"f": f"Callable[[{carry}, {x}], tuple[{carry}, Y]]", "init": init, "xs": xs},
                f"tuple[{carry}, Y]",
            )
            for init, carry in _INSIDE
            for xs, x in (("TensorLike", "Tensor"), ("Any = None", "Any"))
        ),
    },
    "adjoint.graph.control.while_loop": {
        "while_loop": tuple(
            (
                {
                    "cond_fun": f"Callable[[{carry}], Any]",
                    "body_fun": f"Callable[[{carry}], {carry}]",
                    "init_val": init,
                },
                carry,
            )
            for init, carry in _INSIDE
        ),
        "fori_loop": tuple(
            ({"body_fun": f"Callable[[Any, {carry}], {carry}]", "init_val": init}, carry)
            for init, carry in _INSIDE
        ),
    },
    "adjoint.graph.control.associative_scan": {
        "map": (
            ({"f": "Callable[[Tensor], R]", "xs": "TensorLike"}, "R"),
            ({"f": "Callable[[T], R]", "xs": "T"}, "R"),
        ),
    },
    "adjoint.graph.closures": {
        "make_graph": (
            ({"fun": "Callable[P, Any]", "return_shape": _NO}, "Callable[P, Graph]"),
            ({"fun": "Callable[P, Any]", "return_shape": _YES}, "Callable[P, tuple[Graph, Any]]"),
            ({"fun": "Callable[P, Any]"}, "Callable[P, Any]"),
        ),
    },
    "adjoint.graph.control.implicit": {
        name: tuple(
            ({given: outside, "has_aux": has_aux}, result.format(inside))
            for outside, inside in _INSIDE
            for has_aux, result in ((_NO, "{}"), (_YES, "tuple[{}, Any]"))
        )
        for name, given in (("custom_root", "initial_guess"), ("custom_linear_solve", "b"))
    },
}


def of(module: ModuleType) -> dict[str, Text]:
    """The stubs of the transforms of a module, by name."""
    table = OVERLOADS.get(module.__name__, {})
    return {name: Text(list(_stub(getattr(module, name), table[name])), IMPORTS) for name in table}


def _stub(function: FunctionType, overloads: tuple[Overload, ...]) -> Iterator[str]:
    signature = inspect.signature(function)
    for given, result in overloads:
        if len(overloads) > 1:
            yield "@overload"
        yield f"def {function.__name__}{operators.text(_overload(signature, given, result))}: ..."


def _overload(signature: Signature, given: dict[str, str], result: str) -> Signature:
    """A signature with the types that a line of the table says."""
    found: list[Parameter] = []
    optional = False
    for parameter in signature.parameters.values():
        each = _typed(parameter, given[parameter.name]) if parameter.name in given else parameter
        if each.kind is Parameter.POSITIONAL_OR_KEYWORD:
            required = each.default is Parameter.empty
            if (optional and required) or (found and found[-1].kind is Parameter.KEYWORD_ONLY):
                each = each.replace(kind=Parameter.KEYWORD_ONLY)  # one before may be left out
            optional = optional or not required
        found.append(each)
    assert given.keys() <= signature.parameters.keys()
    return signature.replace(parameters=found, return_annotation=result)


def _typed(parameter: Parameter, text: str) -> Parameter:
    """A parameter of another type, "Literal[0] = 0", and with the default that this says."""
    annotation, _, default = text.partition(" = ")
    kept = parameter.default if default else Parameter.empty
    return parameter.replace(annotation=annotation, default=kept)
