"""jvp, linearize, Jacobians, Hessians and products with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, GradError, ShapeError
from adjoint.core.shapes import show
from adjoint.core.symbolic_sizes import is_for_many
from adjoint.homes import derive
from adjoint.ops import operator as operators
from adjoint.tensor.tensor import Tensor
from adjoint.transforms import arguments, reverse
from adjoint.transforms.arguments import Argnums
from adjoint.transforms.dressing import plain, plain_tree
from adjoint.transforms.forward import pushforward
from adjoint.transforms.progress import is_shown
from adjoint.transforms.transformed import Transformed
from adjoint.transforms.vectorize import vmap


class SparseMaker:
    """The maker of sparse derivatives, given by _wiring.py: a layer above this one."""

    make: Callable[..., Callable[..., Any]]


def _tangents(what: str, primals: list[Any], structure: Any, tangents: Any) -> list[Any]:
    given = arguments.matched(f"{what}: the tangents", structure, tangents, "tangents")
    found = []
    for primal, tangent, path in zip(
        primals, given, pytrees.paths(structure, "tangents"), strict=True
    ):
        tensor = (
            plain(tangent)
            if isinstance(tangent, Tensor)
            else arguments.to_tensor(what, tangent, path)
        )
        if tuple(tensor.shape) != tuple(primal.shape):
            raise ShapeError(
                f"{what}: {path} has shape {show(tensor.shape)}, the primal {show(primal.shape)}"
            )
        found.append(tensor if tensor.dtype is primal.dtype else tensor.to(primal.dtype))
    return found


def jvp(
    f: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return `f(*primals)` and its derivative in the direction `tangents`, in forward mode.

    An output that depends on no primal has the derivative zero, or with `strict` raises.

    >>> import adjoint as ad
    >>> ad.jvp(ad.sin, (ad.tensor(0.0),), (ad.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise ArgumentError(
            "jvp: primals and tangents are tuples with one entry for each argument of f"
        )
    inputs, structure, dress = arguments.flatten("jvp", tuple(primals), "primals")
    directions = _tangents("jvp", inputs, structure, tuple(tangents))

    def flat(*values: Any) -> tuple[list[Any], Any]:
        seen = pytrees.unflatten(structure, dress.put_on(values))
        output, aux = reverse.split_aux("jvp", dress.call(f, seen), has_aux)
        leaves, out_structure = arguments.flatten_output("jvp", output)
        return leaves, (out_structure, plain_tree(aux))

    outputs, found, (out_structure, aux) = pushforward(flat, inputs, directions)
    if strict and any(t is None for t in found):
        raise GradError("jvp: an output depends on none of the primals, and strict=True")
    derivative = dress.result(pytrees.unflatten(out_structure, reverse.filled(found, outputs)))
    output = dress.result(pytrees.unflatten(out_structure, outputs))
    return (output, derivative, dress.result(aux)) if has_aux else (output, derivative)


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return `f(*primals)` and the linear map of its derivative there; `f` runs once.

    With `has_aux` the function returns a pair of its output and anything, which comes third.

    >>> import adjoint as ad
    >>> y, push = ad.linearize(ad.sin, ad.tensor(0.0))
    >>> push(ad.tensor(2.0)), push(ad.tensor(3.0))
    (tensor(2.), tensor(3.))
    """
    inputs, structure, dress = arguments.flatten("linearize", primals, "primals")
    outputs, out_structure, aux, pull = reverse.run(
        "linearize",
        lambda *v: dress.call(f, pytrees.unflatten(structure, dress.put_on(v))),
        inputs,
        has_aux,
    )

    def push(*tangents: Any) -> Any:
        directions = _tangents("linearize", inputs, structure, tangents)
        found = derive.transpose(lambda *cotangents: pull(cotangents), outputs, directions)
        return dress.result(pytrees.unflatten(out_structure, reverse.filled(found, outputs)))

    output = dress.result(pytrees.unflatten(out_structure, outputs))
    return (output, push, dress.result(aux)) if has_aux else (output, push)


class _Problem:
    """The problem of a Jacobian: a function of flat inputs; the other arguments are fixed."""

    def __init__(
        self,
        what: str,
        f: Callable[..., Any],
        argnums: Argnums,
        args: Any,
        keywords: Any,
        has_aux: bool,
    ) -> None:
        self.what, self.has_aux = what, has_aux
        self.inputs, self.structure, self.flat, self.dress = arguments.flat_function(
            what, f, argnums, args, keywords
        )

    def assemble(
        self, out_structure: Any, blocks: list[list[Any]], outputs: list[Any], aux: Any
    ) -> Any:
        """Blocks [output][input] as a pytree of outputs of pytrees of inputs."""
        pairs = zip(blocks, outputs, strict=True)
        rows = [
            pytrees.unflatten(self.structure, self.dress.given_back(row, [o])) for row, o in pairs
        ]
        jacobian = pytrees.unflatten(out_structure, rows)
        return self.dress.result((jacobian, aux) if self.has_aux else jacobian)


def _basis(tensors: list[Any]) -> list[Any]:
    """For each tensor the rows of the identity over all of them: (n, *shape)."""
    sizes = [t.numel() for t in tensors]
    total = sum(sizes)
    if len(tensors) == 1:
        eye = operators.packet("eye")(total, dtype=tensors[0].dtype)
        return [eye.reshape((total, *tensors[0].shape))]
    found, start = [], 0
    for tensor, size in zip(tensors, sizes, strict=True):
        rows = operators.packet("zeros")((total, size), dtype=tensor.dtype)
        eye = operators.packet("eye")(size, dtype=tensor.dtype)
        parts = [rows.narrow(0, 0, start), eye, rows.narrow(0, 0, total - start - size)]
        found.append(operators.packet("cat")(parts, 0).reshape((total, *tensor.shape)))
        start += size
    return found


def _over_basis(
    one: Callable[..., Any], tensors: list[Any], chunk: int | None, **options: Any
) -> Any:
    """Map a function over the rows of the identity; only the rows of one chunk exist."""
    if chunk is None:
        return vmap(one, **options)(*_basis(tensors))
    sizes = [t.numel() for t in tensors]
    arange = operators.packet("arange")

    def at(place: Any) -> Any:
        rows, start = [], 0
        for tensor, size in zip(tensors, sizes, strict=True):
            row = (arange(start, start + size) == place).to(tensor.dtype)
            rows.append(row.reshape(tensor.shape))
            start += size
        return one(*rows)

    return vmap(at, chunk_size=chunk, **options)(arange(sum(sizes)))


def _chunk(chunk_size: int | None, columns: int, progress: bool) -> int | None:
    """The number of columns at once: all, or few enough for a smooth progress bar."""
    if chunk_size is None and progress and is_shown():
        return max(1, columns // 50)
    return chunk_size


def _reverse_blocks(
    problem: _Problem, outputs: list[Any], pull: Any, chunk_size: int | None, progress: bool
) -> list[list[Any]]:
    """∂output/∂input by pulling back the identity."""

    def one(*cotangents: Any) -> list[Any]:
        return reverse.filled(pull(cotangents), problem.inputs)

    total = sum(o.numel() for o in outputs)
    by_chance = is_for_many() and any(o.shape for o in outputs)
    if total == 1 and not by_chance:  # one output: a gradient, with which Hessians begin
        rows = [g.unsqueeze(0) for g in one(*[o.detach().ones_like() for o in outputs])]
    else:
        chunk = _chunk(chunk_size, total, progress)
        rows = _over_basis(one, outputs, chunk, progress=progress)
    blocks, start = [], 0
    for output in outputs:
        size = output.numel()
        part = [
            r.narrow(0, start, size).reshape((*output.shape, *t.shape))
            for r, t in zip(rows, problem.inputs, strict=True)
        ]
        # the pullback applies Jᴴ; a Jacobian holds J
        blocks.append([p.conj() if p.is_complex() else p for p in part])
        start += size
    return blocks


def _forward_blocks(
    problem: _Problem, chunk_size: int | None, progress: bool, randomness: str = "error"
) -> tuple[list[list[Any]], Any, Any]:
    """∂output/∂input by pushing the identity forward."""
    structure: Any = None
    aux_leaves: list[Any] = []
    aux_structure: Any = None

    def one(*tangents: Any) -> tuple[list[Any], list[Any]]:
        nonlocal structure, aux_leaves, aux_structure

        def flat(*values: Any) -> tuple[list[Any], Any]:
            nonlocal structure
            output, aux = reverse.split_aux(problem.what, problem.flat(*values), problem.has_aux)
            leaves, structure = arguments.flatten_output(problem.what, output)
            return leaves, plain_tree(aux)

        outputs, found, aux = pushforward(flat, problem.inputs, tangents)
        aux_leaves, aux_structure = pytrees.flatten(aux)
        return reverse.filled(found, outputs), [v for v in aux_leaves if isinstance(v, Tensor)]

    chunk = _chunk(chunk_size, sum(t.numel() for t in problem.inputs), progress)
    columns, kept = _over_basis(
        one, problem.inputs, chunk, out_dims=(-1, 0), progress=progress, randomness=randomness
    )
    tensors = iter(kept)  # aux does not depend on the direction: take the first
    aux = pytrees.unflatten(
        aux_structure, [next(tensors)[0] if isinstance(v, Tensor) else v for v in aux_leaves]
    )
    blocks = []
    for column in columns:
        start, row = 0, []
        for tensor in problem.inputs:
            part = column.narrow(-1, start, tensor.numel())
            row.append(part.reshape((*column.shape[:-1], *tensor.shape)))
            start += tensor.numel()
        blocks.append(row)
    return blocks, structure, aux


def _check_complex(what: str, inputs: list[Any], outputs: list[Any], holomorphic: bool) -> None:
    """Raise unless each entry of the Jacobian is a single real or complex number."""
    complex_in, complex_out = (
        any(t.is_complex() for t in inputs),
        any(t.is_complex() for t in outputs),
    )
    if not complex_in and (not complex_out or what == "jacfwd"):
        return
    if not complex_in:
        raise GradError(
            f"{what}: a complex function of real arguments needs forward mode; use jacfwd"
        )
    if not all(t.is_complex() for t in (*inputs, *outputs)):
        raise GradError(
            f"{what}: the function mixes complex and real arguments or results, and has no "
            "Jacobian of one number per entry; separate real and imaginary parts with "
            "ad.view_as_real, or use vjp"
        )
    if not holomorphic:
        raise GradError(
            f"{what}: complex inputs and outputs have a Jacobian of one complex number each only "
            "if the function is holomorphic: say holomorphic=True if it is, or separate real and "
            "imaginary parts with ad.view_as_real"
        )


def jacrev(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    *,
    holomorphic: bool = False,
    progress: bool = False,
) -> Callable[..., Any]:
    """Return the Jacobian function of `f`, in reverse mode: one pass for each output element.

    >>> import adjoint as ad
    >>> ad.jacrev(lambda x: x**2)(ad.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    def compute(*args: Any, **keywords: Any) -> Any:
        problem = _Problem("jacrev", f, argnums, args, keywords, has_aux)
        outputs, structure, aux, pull = reverse.run("jacrev", problem.flat, problem.inputs, has_aux)
        _check_complex("jacrev", problem.inputs, outputs, holomorphic)
        return problem.assemble(
            structure, _reverse_blocks(problem, outputs, pull, chunk_size, progress), outputs, aux
        )

    shared: dict[str, Any] = {"argnums": argnums, "has_aux": has_aux, "chunk_size": chunk_size}
    return Transformed(jacrev, f, compute, **shared, holomorphic=holomorphic, progress=progress)


def jacfwd(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    *,
    randomness: str = "error",
    holomorphic: bool = False,
    progress: bool = False,
) -> Callable[..., Any]:
    """Return the Jacobian function of `f`, in forward mode: one pass for each input element.

    >>> import adjoint as ad
    >>> ad.jacfwd(lambda x, a: a * x**2)(ad.tensor([1.0, 2.0]), a=3.0)
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """

    def compute(*args: Any, **keywords: Any) -> Any:
        problem = _Problem("jacfwd", f, argnums, args, keywords, has_aux)
        blocks, structure, aux = _forward_blocks(problem, chunk_size, progress, randomness)
        outputs = [row[0] for row in blocks]
        _check_complex("jacfwd", problem.inputs, [b for row in blocks for b in row], holomorphic)
        return problem.assemble(structure, blocks, outputs, aux)

    shared: dict[str, Any] = {"argnums": argnums, "has_aux": has_aux, "chunk_size": chunk_size}
    options = {"randomness": randomness, "holomorphic": holomorphic, "progress": progress}
    return Transformed(jacfwd, f, compute, **shared, **options)


def jacobian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    holomorphic: bool = False,
    progress: bool = False,
    sparse: bool = False,
    format: str = "csr",
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `f` in the mode that needs fewer passes.

    With `sparse` it finds the entries that are not zero at every point, and computes these alone:
    a matrix of SciPy, or with format="tensor" a sparse tensor, which can be differentiated again.
    Rows and columns count the elements of an output and of an input. The first call prepares a
    program, which later calls with arguments of the same shapes use; arrays of whole numbers among
    the arguments choose elements, so new ones prepare another.

    >>> import adjoint as ad
    >>> ad.jacobian(lambda x: x.cumsum(0))(ad.ones(3))
    tensor([[1., 0., 0.],
            [1., 1., 0.],
            [1., 1., 1.]])
    >>> ad.jacobian(lambda x: x[1:] * x[:-1], sparse=True)(ad.ones(4)).nnz
    6
    """
    if sparse:
        _check_sparse("jacobian", has_aux, holomorphic)
        compute = SparseMaker.make(f, "jacobian", argnums, format)
        return Transformed(jacobian, f, compute, argnums=argnums, sparse=True, format=format)
    _check_dense("jacobian", format)

    def compute(*args: Any, **keywords: Any) -> Any:
        problem = _Problem("jacobian", f, argnums, args, keywords, has_aux)
        outputs, structure, aux, pull = reverse.run(
            "jacobian", problem.flat, problem.inputs, has_aux
        )
        forward_only = any(o.is_complex() for o in outputs) and not any(
            t.is_complex() for t in problem.inputs
        )
        _check_complex(
            "jacfwd" if forward_only else "jacobian", problem.inputs, outputs, holomorphic
        )
        if not forward_only and sum(o.numel() for o in outputs) <= sum(
            t.numel() for t in problem.inputs
        ):
            blocks = _reverse_blocks(problem, outputs, pull, chunk_size, progress)
        else:
            blocks, structure, aux = _forward_blocks(problem, chunk_size, progress)
        return problem.assemble(structure, blocks, outputs, aux)

    shared: dict[str, Any] = {"argnums": argnums, "has_aux": has_aux, "chunk_size": chunk_size}
    return Transformed(jacobian, f, compute, **shared, holomorphic=holomorphic, progress=progress)


def hessian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
    progress: bool = False,
    sparse: bool = False,
    format: str = "csr",
) -> Callable[..., Any]:
    """Return the function of the second derivatives of a scalar `f`, forward over reverse.

    With `sparse` it computes a sparse matrix, as `jacobian` does.

    >>> import adjoint as ad
    >>> ad.hessian(lambda x: (x**3).sum())(ad.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    if sparse:
        _check_sparse("hessian", has_aux, holomorphic)
        compute = SparseMaker.make(f, "hessian", argnums, format)
        return Transformed(hessian, f, compute, argnums=argnums, sparse=True, format=format)
    _check_dense("hessian", format)
    shared: dict[str, Any] = {"argnums": argnums, "has_aux": has_aux, "holomorphic": holomorphic}
    options: dict[str, Any] = {**shared, "chunk_size": chunk_size, "progress": progress}
    return Transformed(hessian, f, jacfwd(jacrev(f, **shared), **options), **options)


def value_and_jacobian(
    f: Callable[..., Any], argnums: Argnums = 0, *, sparse: bool = False, format: str = "csr"
) -> Callable[..., Any]:
    """Return a function that computes `f` and its Jacobian, dense or with `sparse` as a matrix.

    >>> import adjoint as ad
    >>> value, J = ad.value_and_jacobian(lambda x: x[1:] * x[:-1])(ad.tensor([1.0, 2.0, 3.0]))
    >>> value
    tensor([2., 6.])
    """
    options: dict[str, Any] = {"argnums": argnums, "sparse": sparse, "format": format}
    if sparse:
        compute = SparseMaker.make(f, "jacobian", argnums, format, False, True)
        return Transformed(value_and_jacobian, f, compute, **options)
    _check_dense("value_and_jacobian", format)

    def twice(*args: Any, **keywords: Any) -> tuple[Any, Any]:
        value = f(*args, **keywords)
        return value, value

    both = jacobian(twice, argnums, has_aux=True)

    def compute_dense(*args: Any, **keywords: Any) -> tuple[Any, Any]:
        found, value = both(*args, **keywords)
        return value, found

    return Transformed(value_and_jacobian, f, compute_dense, **options)


def _check_dense(what: str, form: str) -> None:
    if form != "csr":
        raise ArgumentError(f"{what}: format={form!r} is for sparse=True")


def _check_sparse(what: str, has_aux: bool, holomorphic: bool) -> None:
    if has_aux or holomorphic:
        option = "has_aux" if has_aux else "holomorphic"
        raise ArgumentError(f"{what}: sparse=True does not go with {option}=True")


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the Hessian of a scalar `f` at `primals` applied to `tangents`, forward over reverse.

    >>> import adjoint as ad
    >>> ad.hvp(lambda x: (x**3).sum(), (ad.tensor([1.0, 2.0]),), (ad.tensor([1.0, 0.0]),))
    tensor([6., 0.])
    """
    several = tuple(range(len(primals))) if len(primals) > 1 else 0
    return jvp(reverse.grad(f, argnums=several), tuple(primals), tuple(tangents))[1]


def gvp(
    f: Callable[..., Any], loss: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> Any:
    """Return the Gauss–Newton matrix Jᵀ H J of `loss(f(*primals))` applied to `tangents`.

    J is the Jacobian of `f`, H the Hessian of `loss` at the output.

    >>> import adjoint as ad
    >>> ad.gvp(lambda x: x**2, lambda y: (y**2).sum(), (ad.tensor([3.0]),), (ad.tensor([1.0]),))
    tensor([72.])
    """
    output, pushed = jvp(f, tuple(primals), tuple(tangents))
    curved = hvp(loss, (output,), (pushed,))
    _, pull = reverse.vjp(f, *primals)
    grads = pull(curved)
    return grads if len(primals) > 1 else grads[0]
