"""The laws: what must hold of every operator, at every sample, in every dtype.

A law is a function of a row, a sample and the reference that came with it. It returns nothing, and
raises `AssertionError` with the operator, the sample and the numbers where the law is broken.
`check("name")` runs all of them on all samples, for built-in and users' own rows alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.dtypes import DType, named
from adjoint.core.errors import DependsOnValues, DtypeError, ShapeError
from adjoint.ops import arguments as converting
from adjoint.ops import operator as operators
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.tensor import binding
from adjoint.tensor.meta import meta_tensor
from adjoint.testing import batches, jacobians, samples
from adjoint.testing.explain import GradcheckError
from adjoint.testing.gradcheck import gradcheck, gradgradcheck
from adjoint.testing.jacobians import Array, Call, array_of, tensor_of
from adjoint.testing.samples import Sample
from adjoint.transforms import batch

#              relative, absolute times the largest element (at least 1)
TOLERANCE: dict[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-11), "complex128": (1e-9, 1e-11),
    "float32": (1e-4, 1e-5), "complex64": (1e-4, 1e-5),
    "float16": (1e-2, 4e-3), "bfloat16": (5e-2, 2e-2),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An operator at one sample."""

    row: Row
    sample: Sample
    dtype: DType
    reference: Callable[..., Any] | None = None
    number: int = 0  # of the sample among those of its operator

    @property
    def title(self) -> str:
        return f"{self.row.full_name}{self.sample} [{self.sample.name}, {self.dtype.name}]"

    @property
    def arguments(self) -> tuple[Any, ...]:
        """All arguments as one tuple; those that the row refuses to differentiate are detached."""
        names = [a.name for a in self.row.schema.arguments]
        given = [*zip(names, self.sample.args, strict=False), *self.sample.kwargs.items()]
        refused = self.row.refused
        return tuple(_detached(v) if name in refused else v for name, v in given)

    def run(self, *arguments: Any) -> Any:
        """Call the operator; arguments that it would write to are copied before."""
        count = len(self.sample.args)
        args = list(arguments[:count])
        kwargs = dict(zip(self.sample.kwargs, arguments[count:], strict=True))
        for position, argument in enumerate(self.row.schema.arguments):
            if argument.writes and position < count:
                args[position] = args[position].clone()
        ad.manual_seed(0)
        op = operators.operator(self.row.schema.name, self.row.schema.overload)
        return op(*args, **kwargs)

    def run_decomposed(self, *arguments: Any) -> Any:
        """Call the decomposition of the operator on the same arguments."""
        schema, count = self.row.schema, len(self.sample.args)
        kwargs = dict(zip(self.sample.kwargs, arguments[count:], strict=True))
        given = dict(zip(schema.names, arguments[:count], strict=False)) | kwargs
        values = [
            converting.convert(schema.name, a, given.get(a.name, a.default if a.has_default else None))
            for a in schema.arguments
        ]
        ad.manual_seed(0)
        return binding.decomposition(self.row)(*values)

    def outputs(self) -> list[ad.Tensor]:
        """The tensors that the operator returns at this sample."""
        return jacobians.tensors_in(self.run(*self.arguments))


def _detached(value: Any) -> Any:
    if isinstance(value, ad.Tensor):
        return value.detach()
    if isinstance(value, list | tuple):
        return type(value)(_detached(v) for v in value)
    return value


# Law 1


def value_equals_reference(case: Case) -> None:
    """The value equals an independent reference."""
    if case.reference is None:
        return
    args = [_arrays(a) for a in case.sample.args]
    kwargs = {k: _arrays(v) for k, v in case.sample.kwargs.items()}
    with np.errstate(all="ignore"):
        expected = case.reference(*args, **kwargs)
    wanted = expected if isinstance(expected, list | tuple) else [expected]
    got = case.outputs()
    assert len(got) >= len(wanted), f"{case.title}: {len(got)} results, the reference {len(wanted)}"
    for number, (tensor, value) in enumerate(zip(got, wanted, strict=False)):
        _assert_close(
            f"{case.title}: result {number} differs from the reference",
            array_of(tensor), np.asarray(value), same_dtype=False,
        )  # fmt: skip


def _arrays(value: Any) -> Any:
    if isinstance(value, ad.Tensor):
        return array_of(value)
    if isinstance(value, list | tuple):
        return type(value)(_arrays(v) for v in value)
    return value


# Law 2


def reverse_equals_differences(case: Case) -> None:
    """Reverse mode equals finite differences, and gradients have the dtype of their inputs."""
    if not case.sample.kink:
        _gradcheck(case, gradcheck, fast_mode=False)


def second_order_equals_differences(case: Case) -> None:
    """Reverse over reverse, and forward over reverse, equal finite differences of reverse mode.

    Along one random direction; entry by entry only where that fails.
    """
    if not case.sample.kink and case.sample.order > 1:
        options = dict(fast_mode=True, check_fwd_over_rev=True, check_undefined_grad=False)
        _gradcheck(case, gradgradcheck, **options)


def _gradcheck(case: Case, check: Callable[..., bool], **options: Any) -> None:
    try:
        check(case.run, case.arguments, check_grad_dtypes=True, nondet_tol=1e-12, **options)
    except GradcheckError as error:
        raise AssertionError(f"{case.title}: {error}") from error


# Law 3


def jvp_is_adjoint_of_vjp(case: Case) -> None:
    """⟨v, J u⟩ = ⟨Jᵀ v, u⟩ for random u and v, in the real inner product Re Σ conj(a)·b."""
    call = Call.of(case.run, case.arguments)
    leaves = call.leaves()
    outputs = call(leaves)
    wanted = [k for k, t in enumerate(outputs) if t.requires_grad]
    if not wanted:
        return
    generator = np.random.default_rng(0)
    v = [random_like(array_of(outputs[k]), generator) for k in wanted]
    u = [random_like(array_of(t), generator) for t in leaves]
    tangents = jacobians.tangents(call, dict(enumerate(u)), wanted)
    grads = ad.autograd.grad(
        [outputs[k] for k in wanted], leaves, [tensor_of(c) for c in v], allow_unused=True
    )
    pairs = [(jacobians.parts(c), t) for c, t in zip(v, tangents, strict=True)]
    flowing = [(g, d) for g, d in zip(grads, u, strict=True) if g is not None]
    with np.errstate(all="ignore"):
        forward = sum(float(c @ t) for c, t in pairs)
        reverse = sum(float(jacobians.parts(array_of(g)) @ jacobians.parts(d)) for g, d in flowing)
        scale = sum(float(np.abs(c) @ np.abs(t)) for c, t in pairs)
    coarsest = min((*outputs, *leaves), key=lambda t: t.dtype.to_real().itemsize).dtype
    _assert_equal_products(case, forward, reverse, scale, coarsest)


def _assert_equal_products(
    case: Case, forward: float, reverse: float, scale: float, dtype: DType
) -> None:
    if not (np.isfinite(forward) and np.isfinite(reverse)):
        same = np.isfinite(forward) == np.isfinite(reverse)
        assert same or case.sample.kink, f"{case.title}: ⟨v,Ju⟩ = {forward}, ⟨Jᵀv,u⟩ = {reverse}"
        return
    relative, absolute = TOLERANCE.get(dtype.name, TOLERANCE["float32"])
    allowed = relative * max(abs(forward), scale) + absolute
    assert abs(forward - reverse) <= allowed, (
        f"{case.title}: forward mode is not the adjoint of reverse mode: "
        f"⟨v, Ju⟩ = {forward:.12g}, ⟨Jᵀv, u⟩ = {reverse:.12g}"
    )


# Law 4


def vmap_equals_loop(case: Case) -> None:
    """`vmap` over perturbed copies equals one call for each, and does not run as a loop itself.

    For the first sample of an operator also vmap of vmap, of grad and of jvp.
    """
    looped = batch.LOOPED.total()
    tensors = jacobians.tensors_in(case.arguments)
    values = Call(case.run, case.arguments, tuple(tensors))
    in_memory = any(a.name == "stride" for a in case.row.schema.arguments)  # the layout matters
    first = case.number == 0 and not in_memory

    def keep(way: batches.Way) -> bool:
        if case.row.schema.mutates and not way.chosen[0]:
            return False  # what is outside of vmap cannot take a value for each sample
        return not in_memory or (way.axis == 0 and all(way.chosen))

    try:
        batches.compare(
            case.title, lambda *t: values(t), tensors, _assert_close,
            keep=keep, twice=first and not case.row.schema.mutates, is_view=case.row.schema.is_view,
        )  # fmt: skip
        if first and case.dtype.name == "float64" and not case.sample.kink:
            _vmap_of_derivatives(case, values, tensors, keep)
    except DependsOnValues:
        if not _depends_on_values(case):
            raise
    assert batch.LOOPED.total() == looped, f"{case.title} ran as a loop: its row needs a `batch:`"


def _depends_on_values(case: Case) -> bool:
    """Whether values say how many elements are read or written: of a mask, or by the shape rule."""
    lists = [jacobians.tensors_in(a) for a in case.arguments if isinstance(a, list)]
    if any(t.dtype.name == "bool" for tensors in lists for t in tensors):
        return True
    try:
        case.run(*map(_without_data, case.arguments))
    except DependsOnValues:
        return True
    return False


def _vmap_of_derivatives(
    case: Case, values: Call, tensors: list[ad.Tensor], keep: Callable[[batches.Way], bool]
) -> None:
    places = tuple(k for k, t in enumerate(tensors) if t.requires_grad)
    outputs = values(tensors)
    wanted = [k for k, t in enumerate(outputs) if t.requires_grad]
    if not wanted:
        return
    generator = np.random.default_rng(0)
    v = [tensor_of(random_like(array_of(outputs[k]), generator)) for k in wanted]
    u = [tensor_of(random_like(array_of(tensors[k]), generator)) for k in places]

    def chosen(inputs: Sequence[ad.Tensor]) -> tuple[ad.Tensor, ...]:
        found = values(inputs)
        return tuple(found[k] for k in wanted)

    def reverse(*inputs: ad.Tensor) -> Sequence[ad.Tensor]:
        _, pull = ad.vjp(lambda *x: chosen(_put(inputs, places, x)), *(inputs[k] for k in places))
        return pull(tuple(v))

    def forward(*inputs: ad.Tensor) -> Sequence[ad.Tensor]:
        primals = tuple(inputs[k] for k in places)
        return ad.jvp(lambda *x: chosen(_put(inputs, places, x)), primals, tuple(u))[1]

    for mode in (reverse, forward):
        title = f"{case.title}: {mode.__name__} mode"
        batches.compare(
            title, mode, tensors, _assert_close,
            keep=lambda way: way.axis == 0 and keep(way), is_view=case.row.schema.is_view,
        )  # fmt: skip


def _put(values: Sequence[Any], places: Sequence[int], new: Sequence[Any]) -> list[Any]:
    found = list(values)
    for place, value in zip(places, new, strict=True):
        found[place] = value
    return found


# Law 5


def shape_rule_is_right(case: Case) -> None:
    """Shapes and dtypes without data equal the real ones, unless they depend on values."""
    real = case.outputs()
    try:
        claimed = jacobians.tensors_in(case.run(*map(_without_data, case.arguments)))
    except DependsOnValues:
        return
    assert len(real) == len(claimed), (
        f"{case.title}: the shape rule gives {len(claimed)} results, not {len(real)}"
    )
    for number, (a, b) in enumerate(zip(claimed, real, strict=True)):
        assert (tuple(a.shape), a.dtype) == (tuple(b.shape), b.dtype), (
            f"{case.title}: result {number}: the shape rule says {tuple(a.shape)} {a.dtype.name}, "
            f"the kernel gives {tuple(b.shape)} {b.dtype.name}"
        )


def _without_data(value: Any) -> Any:
    if isinstance(value, ad.Tensor):
        return meta_tensor(tuple(value.shape), value.dtype)
    if isinstance(value, list | tuple):
        return type(value)(_without_data(v) for v in value)
    return value


# Law 6


def traced_equals_eager(case: Case) -> None:
    """The graph gives the same values and history, is legal, and its text reads back as itself."""
    tensors = jacobians.tensors_in(case.arguments)
    values = Call(case.run, case.arguments, tuple(tensors))
    expected = values(tensors)
    try:
        graph = ad.trace(lambda *given: values(given), *(_spec(t) for t in tensors))
    except ad.graph.TraceError as error:
        assert _depends_on_values(case), f"{case.title}: {error}"
        return
    ad.graph.verify(graph)
    ad.manual_seed(0)
    got = graph(*tensors)
    assert len(got) == len(expected), (
        f"{case.title}: traced, {len(got)} results instead of {len(expected)}"
    )
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        _assert_close(f"{case.title}: traced, result {number} differs", array_of(a), array_of(b))
        assert a.requires_grad == b.requires_grad, (
            f"{case.title}: traced, result {number} has another history"
        )
    text = str(graph)
    again = str(ad.graph.parse(text, graph.constants))
    assert again == text, f"{case.title}: the graph's text changes when read back:\n{text}\n{again}"


def _spec(tensor: ad.Tensor) -> ad.ShapeDtype:
    return ad.ShapeDtype(tuple(tensor.shape), tensor.dtype, requires_grad=tensor.requires_grad)


# Law 7


def decomposition_equals_kernel(case: Case) -> None:
    """Where a row has a kernel and a decomposition, both give the same values, dtypes and gradients.

    No gradient is a zero gradient here. At inputs that are not finite only the values are compared.
    """
    if not has_both(case.row):
        return
    finite = all(np.isfinite(array_of(t)).all() for t in jacobians.tensors_in(case.arguments))
    expected, wanted = _with_gradients(case, case.run)
    got, found = _with_gradients(case, case.run_decomposed)
    assert len(got) == len(expected), (
        f"{case.title}: decomposed, {len(got)} results instead of {len(expected)}"
    )
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        _assert_close(f"{case.title}: decomposed, result {number} differs", a, b)
    for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if finite:
            pole = ~(np.isfinite(a) | np.isfinite(b))  # of a quotient: inf one way, NaN the other
            a, b = np.where(pole, 0, a), np.where(pole, 0, b)
            _assert_close(f"{case.title}: decomposed, gradient {number} differs", a, b)


def _with_gradients(case: Case, run: Callable[..., Any]) -> tuple[list[Array], list[Array]]:
    """The results, and the gradient of a random combination of them in each input."""
    call = Call.of(run, case.arguments)
    outputs = jacobians.tensors_in(run(*case.arguments))
    generator = np.random.default_rng(0)
    seeds = [tensor_of(random_like(array_of(t), generator)) for t in outputs]
    recorded = [(t, s) for t, s in zip(outputs, seeds, strict=True) if t.requires_grad]
    grads: Sequence[Any] = [None] * len(call.inputs)
    if recorded:
        roots, cotangents = zip(*recorded, strict=True)
        grads = ad.autograd.grad(list(roots), call.inputs, list(cotangents), allow_unused=True)
    pairs = zip(grads, call.inputs, strict=True)
    filled = [np.zeros_like(array_of(t)) if g is None else array_of(g) for g, t in pairs]
    return [array_of(t) for t in outputs], filled


def has_both(row: Row) -> bool:
    """Whether law 7 says something of a row; random numbers are drawn in another order when decomposed."""
    return bool(row.kernel and row.decompose) and row.family != "random" and not row.schema.mutates


# Law 9


def inputs_are_untouched(case: Case) -> None:
    """The operator and its derivatives leave their arguments alone."""
    call = Call.of(case.run, case.arguments)
    tensors = jacobians.tensors_in(case.arguments)
    before = [array_of(t).tobytes() for t in tensors]
    outputs = [t for t in case.outputs() if t.requires_grad]
    if outputs:
        seeds = [tensor_of(np.ones_like(array_of(t))) for t in outputs]
        ad.autograd.grad(outputs, call.inputs, seeds, allow_unused=True)
    for number, (tensor, bytes_before) in enumerate(zip(tensors, before, strict=True)):
        assert array_of(tensor).tobytes() == bytes_before, (
            f"{case.title}: the call or its backward changed tensor argument {number}"
        )


def layout_does_not_matter(case: Case) -> None:
    """Strided, transposed and read-only copies of the inputs give the same values and gradients."""
    expected = _values_and_gradients(case, case.arguments)
    for name, change in LAYOUTS.items():
        try:
            got = _values_and_gradients(case, tuple(_changed(a, change) for a in case.arguments))
        except ShapeError:
            # some views exist for some layouts only, and say so
            assert case.row.schema.is_view, f"{case.title} fails with {name} inputs"
            continue
        assert len(got) == len(expected), f"{case.title}: {name} inputs give other results"
        for number, (a, b) in enumerate(zip(got, expected, strict=True)):
            _assert_close(
                f"{case.title}: with {name} inputs, value or gradient {number} differs", a, b
            )


def _values_and_gradients(case: Case, arguments: tuple[Any, ...]) -> list[Array]:
    call = Call.of(case.run, arguments)
    outputs = jacobians.tensors_in(case.run(*arguments))
    recorded = [t for t in outputs if t.requires_grad]
    grads: Sequence[Any] = ()
    if recorded:
        generator = np.random.default_rng(0)
        seeds = [tensor_of(random_like(array_of(t), generator)) for t in recorded]
        grads = ad.autograd.grad(recorded, call.inputs, seeds, allow_unused=True)
    return [array_of(t) for t in (*outputs, *grads) if t is not None]


def _spread_out(array: Array) -> Array:
    """Every second element of a larger array, the dimensions in reverse order in memory."""
    room = np.zeros((*(2 * n for n in reversed(array.shape)),), array.dtype)
    view = room[(..., *((slice(None, None, 2),) * array.ndim))].T  # ... keeps 0-d an array
    view[...] = array
    return view


def _read_only(array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


LAYOUTS: dict[str, Callable[[Array], Array]] = {"strided": _spread_out, "read-only": _read_only}


def _changed(value: Any, change: Callable[[Array], Array]) -> Any:
    if isinstance(value, ad.Tensor):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a read-only array
            return tensor_of(change(array_of(value)), requires_grad=value.requires_grad)
    if isinstance(value, list | tuple):
        return type(value)(_changed(v, change) for v in value)
    return value


# Running them

LAWS: dict[str, Callable[[Case], None]] = {
    law.__name__: law
    for law in (
        value_equals_reference, reverse_equals_differences, second_order_equals_differences,
        jvp_is_adjoint_of_vjp, vmap_equals_loop, shape_rule_is_right,
        traced_equals_eager, decomposition_equals_kernel, inputs_are_untouched, layout_does_not_matter,
    )
}  # fmt: skip


def cases(row: Row, dtype: DType) -> list[Case]:
    """Return the cases of a row in a dtype; none if the operator does not take that dtype."""
    found = [
        Case(row, s, dtype, r, number) for number, (s, r) in enumerate(samples.for_row(row, dtype))
    ]
    if found and not _takes(found[0]):
        return []
    return found


def _takes(case: Case) -> bool:
    try:
        with ad.no_grad():
            case.run(*case.arguments)
    except DtypeError:
        return False
    except TypeError as error:
        return "not supported for the input types" not in str(error)
    except Exception:
        return True  # a law will say so
    return True


def laws_of(case: Case) -> Iterator[str]:
    """The names of the laws that say something about a case."""
    if case.reference is not None:
        yield "value_equals_reference"
    derivatives, precise = _derivatives_of(case)
    if derivatives and precise and not case.sample.kink:
        yield "reverse_equals_differences"
        if case.sample.order > 1:
            yield "second_order_equals_differences"
    if derivatives:
        yield "jvp_is_adjoint_of_vjp"
    if case.dtype.name in ("float64", "complex128"):
        yield "vmap_equals_loop"
    yield from (
        "shape_rule_is_right", "traced_equals_eager", "inputs_are_untouched", "layout_does_not_matter",
    )  # fmt: skip
    if has_both(case.row):
        yield "decomposition_equals_kernel"


def _derivatives_of(case: Case) -> tuple[bool, bool]:
    """Whether a derivative flows at this sample, and whether finite differences can follow it."""
    if case.dtype.name not in ("float64", "complex128"):
        return False, False
    try:
        flowing = [t for t in case.outputs() if t.requires_grad]
    except Exception:
        return bool(case.row.differentiable), True  # a law will say what is wrong
    return bool(flowing), all(t.dtype.to_real().itemsize >= 8 for t in flowing)


def check(operator: str, dtypes: Sequence[str] = ("float64", "complex128")) -> int:
    """Run every law on every sample of `operator`; return how many held, or raise AssertionError.

    `operator` is a name, with or without overload: "sum", "sum.dim_IntList", or one of your own.
    """
    name, _, overload = operator.partition(".")
    overloads = [overload] if overload else TABLE.overloads(name)
    held, broken = 0, list[str]()
    for row in (TABLE.row(name, o) for o in overloads):
        for dtype in (named(d) for d in dtypes):
            for case in cases(row, dtype):
                for law in laws_of(case):
                    try:
                        LAWS[law](case)
                        held += 1
                    except Exception as error:
                        broken.append(f"{law}: {type(error).__name__}: {error}")
    if broken:
        more = f"\n... and {len(broken) - 5} more" if len(broken) > 5 else ""
        shown = "\n\n".join(broken[:5])
        raise AssertionError(f"{operator}: {len(broken)} laws broken, {held} held\n\n{shown}{more}")
    return held


# Comparing


def random_like(array: Array, generator: np.random.Generator) -> Array:
    """Return a random array of the same shape and dtype."""
    values = generator.standard_normal(array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * generator.standard_normal(array.shape)
    return np.asarray(values).astype(array.dtype)


def _assert_close(what: str, got: Array, expected: Array, *, same_dtype: bool = True) -> None:
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, not {expected.shape}"
    if same_dtype:
        assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, not {expected.dtype}"
    relative, absolute = TOLERANCE.get(str(got.dtype), (0.0, 0.0))
    wide = np.complex128 if got.dtype.kind == "c" or expected.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
        near = np.abs(a - b) <= relative * np.abs(b) + absolute * scale
        near |= (a == b) | (np.isnan(a) & np.isnan(b))
    if not near.all():
        place = tuple(int(i) for i in np.argwhere(~near)[0])
        raise AssertionError(
            f"{what}: {int((~near).sum())} of {near.size} elements, first at {place}: "
            f"{got[place]} instead of {expected[place]}"
        )
