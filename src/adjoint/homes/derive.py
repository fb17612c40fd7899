"""The missing mode of a row, derived from the mode that is written.

A row's derivative is a linear map J at a point. Its reverse formula applies Jᴴ, its forward formula
J. Each is the transpose of the other, and the tape can transpose a linear function: run it on a
variable of which only the shape matters, and pull a cotangent back through the operators that ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adjoint.core.dtypes import DType
from adjoint.core.errors import GradError
from adjoint.core.remembering import remembered
from adjoint.homes.levels import GradLevel
from adjoint.homes.pullback import pullback, pullback_on
from adjoint.ops import binding
from adjoint.ops import operator as operators
from adjoint.ops.kinks import is_limit
from adjoint.table.rows import ForwardFormula, Reverse, Row
from adjoint.tape import fitting, narrow
from adjoint.tape.fitting import dense
from adjoint.tape.saving import grad_names, result_names
from adjoint.tensor.tensor import Tensor


def transpose(linear: Callable[..., Any], like: list[Any], cotangents: list[Any]) -> list[Any]:
    """Apply the transpose of a linear function of several tensors.

    `like` are tensors with the shapes and dtypes of its arguments. If the tape is on, the result
    keeps its history in the tensors that the function closed over.
    """
    zeros = [operators.packet("zeros_like")(t.detach()) for t in like if t is not None]

    def run(*variables: Any) -> tuple[list[Any], None]:
        given = iter(variables)
        return [*map(dense, linear(*[None if t is None else next(given) for t in like]))], None

    # tensors from a kink are pairs, which a tape of single tensors would separate
    pairs = any(is_limit(t) for t in (*like, *cotangents) if t is not None)
    _, pull = pullback_on(GradLevel(), run, zeros) if pairs else pullback(run, zeros)
    found = iter(pull.passed(cotangents, retain=False))
    return [None if t is None else next(found) for t in like]


@remembered
def _functions(row: Row) -> dict[str, tuple[Callable[..., Any], tuple[str, ...], bool]]:
    """Compiled formulas of a row by symbol: (function, parameters, whether to widen arguments)."""
    return {}


@remembered
def _pruned(row: Row) -> dict[tuple[str, frozenset[str]], ForwardFormula]:
    """The forward formulas of a row without the terms of absent tangents."""
    return {}


def call_formula(row: Row, entry: Any, symbol: str, scope: dict[str, Any]) -> Any:
    """Evaluate a formula on tensors in `scope`; the compiled function is kept on the row."""
    known = _functions(row)
    if row.widens and narrow.is_narrow(scope.get(a.name) for a in row.schema.tensors):
        symbol = f"{symbol}_narrow"
    if symbol not in known:
        other = narrow.narrowed(row, entry.formula) if symbol.endswith("_narrow") else None
        formula = entry.formula if other is None else other
        parameters = tuple(sorted(formula.names & scope.keys()))
        key = row.prepared_key("formula", symbol, *parameters)
        function = binding.bind(formula, symbol, parameters, raw=False, key=key)
        known[symbol] = (function, parameters, other is not None)
    function, parameters, is_narrow = known[symbol]
    if len(row.promoted_tensors) > 1:
        scope = _together(row, scope)
    values: Sequence[Any] = [scope[p] for p in parameters]
    if is_narrow:
        values = [narrow.wide(v) for v in narrow.with_numbers(row, parameters, values)]
    return function(*values)


def _together(row: Row, scope: dict[str, Any]) -> dict[str, Any]:
    """The scope with the operands in the dtype in which the row computed.

    Derivatives belong to the computation that ran: a float32 scalar next to a float16 vector was
    rounded to float16 first, and may equal an element of it only because of that.
    """
    given = {n: scope[n] for n in row.promoted_tensors if isinstance(scope.get(n), Tensor)}
    dtypes = [t.dtype for t in given.values()]
    if all(d is dtypes[0] for d in dtypes):
        return scope
    common = row.computes_in({a.name: scope.get(a.name) for a in row.promoted})
    assert common is not None
    found = dict(scope)
    for name, tensor in given.items():
        found[name] = found[f"{name}_p"] = in_dtype(tensor, common)
    return found


def in_dtype(tensor: Any, common: DType) -> Any:
    """A tensor in the precision of a dtype; a real tensor stays real."""
    return tensor.to(common if tensor.is_complex() else common.to_real())


def with_facts(row: Row, scope: dict[str, Any]) -> dict[str, Any]:
    """Add self__shape, self__dtype, … where the reverse formulas of a row use them."""
    used_facts = _used_facts(row)
    if not used_facts:
        return scope
    facts: dict[str, Any] = {}
    for used, name, fact in used_facts:
        value = scope.get(name)
        if isinstance(value, Tensor):
            facts[used] = _fact(value, fact)
        elif type(value) is list:
            facts[used] = [_fact(v, fact) for v in value]
    return scope | facts


@remembered
def _used_facts(row: Row) -> tuple[tuple[str, str, str], ...]:
    """The facts in the reverse formulas of a row: ("self__shape", "self", "shape")."""
    formulas = [entry.formula for entry in row.reverse if entry.formula]
    found = (n.rpartition("__") for f in formulas for n in f.names if "__" in n)
    return tuple((f"{name}__{fact}", name, fact) for name, _, fact in found)


def _fact(tensor: Any, name: str) -> Any:
    found = getattr(tensor, name)
    return found() if callable(found) else found


def forward_from_reverse(
    row: Row, scope: dict[str, Any], tangents: dict[str, Any], results: list[Any]
) -> list[Any]:
    """J t for each output, as the transpose of the reverse formulas."""
    wanted = [i for i, d in enumerate(row.differentiable_outputs) if d]
    names = grad_names(row)
    flat_results = _flatten(row, results)

    def pull(*grads: Any) -> list[Any]:
        full: list[Any] = [None] * len(flat_results)
        for i, g in zip(positions, grads, strict=True):
            full[i] = g
        several = len(row.schema.returns) > 1 or any(r.type.is_list for r in row.schema.returns)
        local = dict(facts)
        for name, number in names.items():
            local[name] = full if number < 0 else full[number] if several else full[0]
        return reverse_all(row, local, tangents)

    has_list = any(r.type.is_list for r in row.schema.returns)
    positions = list(range(len(flat_results))) if has_list else wanted
    facts = with_facts(row, dict(scope) | {n: results[i] for n, i in result_names(row).items()})
    like = [flat_results[i] for i in positions]
    cotangents: list[Any] = []
    for argument in row.differentiable:
        tangent = tangents.get(argument.name)
        if argument.type.is_list:
            cotangents.extend(tangent or [None] * len(scope[argument.name]))
        else:
            cotangents.append(tangent)
    found = transpose(pull, like, cotangents)
    output: list[Any] = [None] * len(flat_results)
    for i, value in zip(positions, found, strict=True):
        output[i] = value
    return output


def _flatten(row: Row, results: list[Any]) -> list[Any]:
    return list(results[0]) if any(r.type.is_list for r in row.schema.returns) else results


def reverse_all(row: Row, scope: dict[str, Any], tangents: dict[str, Any]) -> list[Any]:
    """Evaluate the reverse formulas of all inputs that have a tangent, in the schema's order."""
    found: dict[str, Any] = {}
    for entry in row.reverse:
        if entry.formula is None or not any(tangents.get(n) is not None for n in entry.inputs):
            continue
        local = dict(scope)
        local["grad_input_mask"] = tuple(tangents.get(n) is not None for n in entry.inputs)
        local["retain_variables"] = True
        value = call_formula(row, entry, f"{row.schema.symbol}_{'_'.join(entry.inputs)}", local)
        found |= dict(zip(entry.inputs, value if len(entry.inputs) > 1 else (value,), strict=True))
    flat: list[Any] = []
    for argument in row.differentiable:
        value = found.get(argument.name)
        if argument.type.is_list:
            flat.extend(value if value is not None else [None] * len(scope[argument.name]))
        else:
            given = scope[argument.name]  # None where an optional input is absent
            absent = value is None or given is None
            flat.append(None if absent else fitting.fit_like(value, given))
    return flat


def reverse_from_forward(row: Row, scope: dict[str, Any], grad: Any, needs: Any) -> tuple[Any, ...]:
    """Jᴴ g for each input, as the transpose of the forward formulas."""
    inputs = [a for a in row.differentiable if scope.get(a.name) is not None]
    if any(a.type.is_list for a in inputs):
        raise GradError(
            f"{row.full_name}: a reverse formula is needed for its list of tensors; see {row.where}"
        )
    results = [scope[r.name] for r in row.schema.returns]

    def push(*tangents: Any) -> list[Any]:
        named = dict(zip((a.name for a in inputs), tangents, strict=True))
        return forward_all(row, scope, named, results)

    like = [scope[a.name] for a in inputs]
    cotangents = list(grad) if len(row.schema.returns) > 1 else [grad]
    return tuple(transpose(push, like, cotangents))


def forward_all(
    row: Row, scope: dict[str, Any], tangents: dict[str, Any], results: list[Any]
) -> list[Any]:
    """The tangent of each output, by the row's forward formulas or from its reverse ones."""
    by_output = {f.output: f for f in row.forward}
    if not by_output:
        return forward_from_reverse(row, scope, tangents, results)
    output: list[Any] = []
    for returned, differentiable in zip(
        row.schema.returns, row.differentiable_outputs, strict=True
    ):
        entry = by_output.get(returned.name)
        output.append(
            _forward(row, entry, scope, tangents, results)
            if differentiable and entry is not None
            else None
        )
    if len(row.schema.returns) == 1 and row.schema.returns[0].type.is_list:
        return list(output[0])
    return output


def _forward(
    row: Row,
    entry: ForwardFormula,
    scope: dict[str, Any],
    tangents: dict[str, Any],
    results: list[Any],
) -> Any:
    if entry.automatic:
        return _AUTOMATIC[entry.automatic](row, scope, tangents, results)
    absent = frozenset(a.name for a in row.differentiable if tangents.get(a.name) is None)
    entry = _without(row, entry, absent)
    if entry.formula is None:
        return None
    used = entry.formula.names
    local = dict(scope) | {n: results[i] for n, i in result_names(row).items()}
    local["retain_variables"] = True
    for argument in row.schema.tensors:
        name = argument.name
        local[f"{name}_p"] = scope.get(name)
        if f"{name}_t" in used:
            local[f"{name}_t"] = materialised(scope.get(name), tangents.get(name))
    symbol = "_".join(
        (row.schema.symbol, entry.output, "tangent", *(f"without_{n}" for n in sorted(absent)))
    )
    return call_formula(row, entry, symbol, local)


def _without(row: Row, entry: ForwardFormula, absent: frozenset[str]) -> ForwardFormula:
    """A forward formula without the terms of absent tangents, kept on the row."""
    if not absent:
        return entry
    known, key = _pruned(row), (entry.output, absent)
    if key not in known:
        others = frozenset(f"{a.name}_t" for a in row.differentiable if a.name not in absent)
        assert entry.formula is not None
        pruned = entry.formula.without_terms(frozenset(f"{n}_t" for n in absent), others)
        known[key] = replace(entry, formula=pruned)
    return known[key]


def materialised(primal: Any, tangent: Any) -> Any:
    """The tangent, or zeros if it is absent."""
    if isinstance(primal, (list, tuple)):
        return [
            materialised(p, t) for p, t in zip(primal, tangent or [None] * len(primal), strict=True)
        ]
    if tangent is not None or primal is None:
        return tangent
    return operators.packet("zeros_like")(primal.detach())  # for integers, too: x / count has both


# -- forward formulas that are words ---------------------------------------------------------------


def _linear(row: Row, scope: dict[str, Any], tangents: dict[str, Any], results: list[Any]) -> Any:
    """The operator itself, applied to the tangents.

    Where some are absent, an elementwise operator computes only the terms of the others by their
    reverse formulas, and a term that equals a tangent is that tangent itself; only operators that
    concatenate or overwrite elements get zeros for absent tangents.
    """
    steep = [a for a in row.differentiable if a.name not in row.flat]
    present = [a.name for a in steep if tangents.get(a.name) is not None]
    if not present:
        return None
    if len(present) < len(steep) and (
        all(a.name in row.promoted_tensors for a in steep) or row.passes_on(present)
    ):
        return _element_wise(row, scope, tangents, results)
    places = {a.name: materialised(scope[a.name], tangents.get(a.name)) for a in steep}
    return _call(row, scope | places)


def _multilinear(
    row: Row, scope: dict[str, Any], tangents: dict[str, Any], results: list[Any]
) -> Any:
    """The sum over the inputs of the operator with that input replaced by its tangent."""
    total: Any = None
    for argument in row.differentiable:
        name, tangent = argument.name, tangents.get(argument.name)
        given = scope[name]
        replaced = (
            [[*given[:k], t, *given[k + 1 :]] for k, t in enumerate(tangent or ()) if t is not None]
            if argument.type.is_list
            else [tangent] * (tangent is not None)
        )
        for value in replaced:
            term = _call(row, scope | {name: value})
            total = term if total is None else total + term
    return total


def _call(row: Row, scope: dict[str, Any]) -> Any:
    """Run the operator on values of its arguments; for one that writes, its functional form."""
    name = row.schema.name.removesuffix("_") if row.schema.replaces else row.schema.name
    values = [scope[n] for n in row.schema.names]
    return operators.operator(name, row.schema.overload).call(values)


def _gather(row: Row, scope: dict[str, Any], tangents: dict[str, Any], results: list[Any]) -> Any:
    """The elements of the tangent at the places that the operator chose: its result `indices`."""
    tangent = tangents[row.differentiable[0].name]
    indices, dim = results[result_names(row)["indices"]], scope["dim"]
    if tangent.ndim == 0:
        return tangent
    if indices.ndim == tangent.ndim:
        return tangent.gather(dim, indices)
    return tangent.gather(dim, indices.unsqueeze(dim)).squeeze(dim)


def _element_wise(
    row: Row, scope: dict[str, Any], tangents: dict[str, Any], results: list[Any]
) -> Any:
    """The factors of the reverse formulas: t ↦ conj(vjp(conj(t))), summed over the inputs."""
    slopes = [s for s in _slopes(row) if tangents.get(s[0]) is not None]
    if not slopes:
        return materialised(results[row.differentiable_outputs.index(True)], None)
    local = with_facts(row, scope | {n: results[i] for n, i in result_names(row).items()})
    known = (*scope.values(), *tangents.values())
    is_complex = any(isinstance(v, Tensor) and v.dtype.is_complex for v in known)
    total: Any = None
    for name, symbol, general, real in slopes:
        tangent = tangents[name].conj() if is_complex else tangents[name]
        local |= dict.fromkeys(_single_grads(row), tangent)
        if is_complex:
            term = call_formula(row, general, symbol, local).conj()
        else:
            term = call_formula(row, real, f"{symbol}_real", local)
        total = term if total is None else total + term
    return total


@remembered
def _slopes(row: Row) -> list[tuple[str, str, Reverse, Reverse]]:
    """For each input with a slope: name, symbol of the formula, the formula, that for reals."""
    return [
        (
            entry.inputs[0],
            f"{row.schema.symbol}_{'_'.join(entry.inputs)}",
            entry,
            replace(entry, formula=entry.formula.without_conj()),
        )
        for entry in row.reverse
        if entry.formula and entry.word != "zero"
    ]


@remembered
def _single_grads(row: Row) -> tuple[str, ...]:
    return tuple(n for n, i in grad_names(row).items() if i >= 0)


_AUTOMATIC: dict[str, Callable[[Row, dict[str, Any], dict[str, Any], list[Any]], Any]] = {
    "auto_linear": _linear,
    "auto_element_wise": _element_wise,
    "auto_multilinear": _multilinear,
    "auto_gather": _gather,
}
