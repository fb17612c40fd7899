"""Eager operators on large arrays, ours over PyTorch's, one operator after the other.

    python benchmarks/eager_kernels.py [--size 1000000] [--threads 2] [--type '*'] [PATTERN]

Each library runs in a process of its own; they take turns, so that both meet the same machine. The
number of an operator is the least of its rounds: what others do on the machine only adds to it.
With one thread it is processor time.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

ROUNDS, SECONDS = 5, 0.02  # turns of each library, and how long one lasts at least

UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "digamma", "erf", "erfc", "exp", "exp2",
    "expm1", "floor", "isnan", "log1p", "neg", "reciprocal", "relu", "round", "sigmoid", "sign",
    "sin", "sinc", "sinh", "square", "tan", "tanh", "trunc",
)  # fmt: skip
POSITIVE = ("lgamma", "log", "log10", "log2", "rsqrt", "sqrt")
BINARY = (
    "add", "atan2", "copysign", "div", "eq", "floor_divide", "fmod", "ge", "gt", "heaviside",
    "hypot", "logaddexp", "maximum", "minimum", "mul", "pow", "remainder", "sub", "xlogy",
)  # fmt: skip
ACTIVATIONS = (
    "celu", "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid",
    "mish", "relu6", "selu", "silu", "softplus", "softsign", "tanhshrink",
)  # fmt: skip
LOSSES = ("binary_cross_entropy_with_logits", "huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss")
# what the gradient is taken of: activations, then functions of rows
BACKWARD = ("gelu", "leaky_relu", "relu", "sigmoid", "silu", "softplus", "tanh")
REDUCTIONS = ("amax", "amin", "argmax", "logsumexp", "mean", "norm", "prod", "std", "sum", "var")
OTHER_TYPES = ("float16", "bfloat16", "int64", "int32", "uint8")
TYPES = ("float32", "float64", *OTHER_TYPES)
Calls = Iterator[tuple[str, Callable[[], Any]]]


class Arguments:
    """The arguments of operators; those that have `size` elements are large."""

    def __init__(self, lib: Any, size: int, dtype: str) -> None:
        import numpy as np

        draw = np.random.default_rng(0)
        self.side = side = math.isqrt(size)

        def make(x: Any) -> Any:
            whole = 100 * x if "int" in dtype else x
            return lib.tensor(whole.astype("float64")).to(getattr(lib, dtype))

        self.x, self.y = make(draw.uniform(-0.9, 0.9, size)), make(draw.uniform(0.1, 2.0, size))
        self.matrix = make(draw.standard_normal((side, side)))
        self.batch = make(draw.standard_normal((max(size // 50_000, 1), 50, 20, 50)))
        self.weight = make(draw.standard_normal(side))
        self.index = lib.tensor(draw.integers(0, side, (side, side)))
        self.places = lib.tensor(draw.integers(0, size, size))
        self.label = lib.tensor(draw.integers(0, side, side))
        self.mask = lib.tensor(draw.uniform(size=size) < 0.5)
        self.wide = make(draw.uniform(-0.9, 0.9, 2 * size))
        self.part = make(draw.uniform(0.01, 0.99, size))
        self.image = make(draw.standard_normal((max(size // 250_000, 1), 16, 125, 125)))
        if dtype not in OTHER_TYPES:
            self.complex = lib.complex(self.x, self.y)


def calls(lib: Any, size: int, dtype: str) -> Calls:
    """The operators, each with its arguments."""
    given = Arguments(lib, size, dtype)
    if dtype in OTHER_TYPES:
        yield from other_types(lib, given, dtype)
        return
    yield from elements(lib, given)
    yield from layouts(lib, given)
    yield from reductions(lib, given)
    yield from rows(lib, given)
    yield from moves(lib, given)
    yield from orders(lib, given)
    yield from draws(lib, given)
    yield from images(lib, given)
    yield from complex_numbers(lib, given)
    yield from gradients(lib, given)


def elements(lib: Any, given: Arguments) -> Calls:
    x, y, f = given.x, given.y, lib.nn.functional
    for name in UNARY:
        yield name, lambda name=name: getattr(lib, name)(x)
    for name in POSITIVE:
        yield name, lambda name=name: getattr(lib, name)(y)
    for name in BINARY:
        yield name, lambda name=name: getattr(lib, name)(y, x)
    for name in ACTIVATIONS:
        yield name, lambda name=name: getattr(f, name)(x)
    for name in LOSSES:
        yield name, lambda name=name: getattr(f, name)(x, y)
    yield "gelu tanh", lambda: f.gelu(x, approximate="tanh")
    yield "add number", lambda: x + 1.5
    yield "mul number", lambda: x * 1.5
    yield "pow 2", lambda: x**2
    yield "pow 2.5", lambda: y**2.5
    yield "floor_divide number", lambda: x // 0.3
    yield "remainder number", lambda: x % 0.3
    yield "logit", lambda: lib.logit(given.part)
    yield "binary_cross_entropy", lambda: f.binary_cross_entropy(given.part, given.part)
    yield "kl_div", lambda: f.kl_div(x, given.part, reduction="sum")
    yield "ldexp", lambda: lib.ldexp(x, y)
    yield "isclose", lambda: lib.isclose(x, y)
    yield "clamp", lambda: lib.clamp(x, -0.5, 0.5)
    yield "clamp tensors", lambda: lib.clamp(x, -y, y)
    yield "erfinv", lambda: lib.erfinv(x)
    yield "where", lambda: lib.where(x > 0, x, y)
    yield "where mask", lambda: lib.where(given.mask, x, y)
    yield "masked_fill", lambda: x.masked_fill(given.mask, 0.0)
    yield "lerp", lambda: lib.lerp(x, y, 0.3)
    yield "addcmul", lambda: lib.addcmul(x, x, y, value=0.5)
    yield "nan_to_num", lambda: lib.nan_to_num(x)
    yield "logical_not", lambda: given.mask.logical_not()
    yield "mask and", lambda: given.mask & given.mask
    for name in ("float16", "float32", "float64", "int64", "bool"):
        yield f"to {name}", lambda name=name: x.to(getattr(lib, name), copy=True)
    yield "mask to float", lambda: given.mask.to(x.dtype)
    z = x.clone()
    yield "add_", lambda: z.add_(x)
    yield "mul_", lambda: z.mul_(0.5)
    yield "sigmoid_", lambda: z.sigmoid_()
    yield "clamp_", lambda: z.clamp_(-0.5, 0.5)
    yield "copy_", lambda: z.copy_(x)
    yield "zero_", lambda: z.zero_()


def layouts(lib: Any, given: Arguments) -> Calls:
    matrix, weight, batch = given.matrix, given.weight, given.batch
    column, turned = weight.reshape(-1, 1), batch.permute(0, 2, 3, 1)
    channels = batch[:1, :, :1, :1]
    yield "add row", lambda: matrix + weight
    yield "add column", lambda: matrix + column
    yield "add channels", lambda: batch + channels
    yield "add outer", lambda: column + weight
    yield "add turned", lambda: matrix + matrix.t()
    yield "exp turned", lambda: matrix.t().exp()
    yield "mul of steps", lambda: given.wide[::2] * given.wide[1::2]
    yield "exp of steps", lambda: given.wide[::2].exp()
    yield "add of a part", lambda: matrix[:, 1:] + matrix[:, :-1]
    yield "mul permuted", lambda: turned * turned
    yield "sum turned", lambda: matrix.t().sum(1)
    yield "sum of a part", lambda: matrix[:, 1:].sum(1)
    yield "softmax turned", lambda: matrix.t().softmax(1)
    yield "cumsum turned", lambda: matrix.t().cumsum(1)
    yield "add whole numbers", lambda: matrix + given.index
    yield "mul mask", lambda: given.x * given.mask
    yield "transpose", lambda: matrix.t().contiguous()
    yield "permute", lambda: turned.contiguous()


def reductions(lib: Any, given: Arguments) -> Calls:
    x, matrix, batch = given.x, given.matrix, given.batch
    for name in ("sum", "mean", "std", "norm", "amax", "argmax", "prod"):
        yield name, lambda name=name: getattr(x, name)()
    for name in REDUCTIONS:
        yield f"{name} of rows", lambda name=name: getattr(matrix, name)(dim=1)
        yield f"{name} of columns", lambda name=name: getattr(matrix, name)(dim=0)
    yield "max of rows", lambda: matrix.max(1)
    yield "nansum", lambda: x.nansum()
    yield "count_nonzero", lambda: x.count_nonzero()
    yield "logcumsumexp of rows", lambda: matrix.logcumsumexp(1)
    yield "sum of channels", lambda: batch.sum((0, 2, 3))
    yield "sum of middle", lambda: batch.sum(1)
    yield "mask sum", lambda: given.mask.sum()
    yield "any", lambda: (x > 2).any()
    yield "dot", lambda: lib.dot(x, x)
    for name in ("cumsum", "cumprod", "cummax"):
        yield f"{name} of rows", lambda name=name: getattr(matrix, name)(1)
        yield f"{name} of columns", lambda name=name: getattr(matrix, name)(0)


def rows(lib: Any, given: Arguments) -> Calls:
    matrix, batch, weight, f = given.matrix, given.batch, given.weight, lib.nn.functional
    side = given.side
    yield "softmax", lambda: matrix.softmax(1)
    yield "softmax of columns", lambda: matrix.softmax(0)
    yield "log_softmax", lambda: matrix.log_softmax(1)
    yield "layer_norm", lambda: f.layer_norm(matrix, (side,), weight, weight)
    yield "rms_norm", lambda: f.rms_norm(matrix, (side,), weight)
    yield "group_norm", lambda: f.group_norm(batch, 10)
    yield "batch_norm", lambda: f.batch_norm(batch, None, None, training=True)
    channels = batch[0, :, 0, 0]
    yield "batch_norm eval", lambda: f.batch_norm(batch, channels, channels**2)
    yield "normalize", lambda: f.normalize(matrix)
    yield "cross_entropy", lambda: f.cross_entropy(matrix, given.label)
    few = matrix[:, : side // 10].contiguous()
    yield "cdist", lambda: lib.cdist(few, few)
    yield "pdist", lambda: lib.pdist(few)
    yield "glu", lambda: f.glu(matrix)
    yield "cosine_similarity", lambda: f.cosine_similarity(matrix, matrix, dim=1)
    yield "prelu", lambda: f.prelu(matrix, weight)
    yield "outer", lambda: lib.outer(weight, weight)
    yield "einsum of outer", lambda: lib.einsum("i,j->ij", weight, weight)
    yield "einsum of rows", lambda: lib.einsum("ij,ij->i", matrix, matrix)
    triples = given.x[: len(given.x) // 3 * 3].reshape(-1, 3)
    yield "cross", lambda: lib.linalg.cross(triples, triples)
    yield "addr", lambda: lib.addr(matrix, weight, weight)


def moves(lib: Any, given: Arguments) -> Calls:
    x, y, matrix, index, label = given.x, given.y, given.matrix, given.index, given.label
    yield "clone", lambda: x.clone()
    yield "cat", lambda: lib.cat([x, y])
    yield "cat of columns", lambda: lib.cat([matrix, matrix], 1)
    yield "stack", lambda: lib.stack([x, y], 1)
    yield "flip", lambda: matrix.flip(1)
    yield "flip of rows", lambda: matrix.flip(0)
    yield "roll", lambda: matrix.roll(3, 1)
    yield "tril", lambda: matrix.tril()
    yield "rot90", lambda: matrix.rot90()
    yield "arange", lambda: lib.arange(given.side**2)
    yield "linspace", lambda: lib.linspace(0, 1, given.side**2)
    yield "zeros", lambda: lib.zeros_like(matrix)
    yield "repeat", lambda: given.weight.repeat(given.side, 1)
    yield "expand", lambda: given.weight.expand(given.side, -1).contiguous()
    yield "pad", lambda: lib.nn.functional.pad(matrix, (1, 1, 1, 1))
    yield "gather", lambda: matrix.gather(1, index)
    yield "gather of columns", lambda: matrix.gather(0, index)
    yield "scatter", lambda: matrix.scatter(1, index, matrix)
    yield "scatter_add", lambda: matrix.scatter_add(1, index, matrix)
    yield "index_select", lambda: matrix.index_select(0, label)
    yield "index_select of columns", lambda: matrix.index_select(1, label)
    yield "index_add", lambda: matrix.index_add(0, label, matrix)
    yield "embedding", lambda: lib.nn.functional.embedding(label, matrix)
    bags = given.places[: 10 * given.side].reshape(-1, 10) % given.side
    yield "embedding_bag", lambda: lib.nn.functional.embedding_bag(bags, matrix)
    yield "index", lambda: x[given.places]
    yield "index rows", lambda: matrix[label]
    yield "index mask", lambda: x[given.mask]
    yield "index_put_", lambda: y.clone().index_put_((given.places,), x, accumulate=True)
    yield "masked_select", lambda: matrix.masked_select(matrix > 0)
    yield "index_add of columns", lambda: matrix.index_add(1, label, matrix)
    yield "nonzero", lambda: given.mask.nonzero()
    yield "one_hot", lambda: lib.nn.functional.one_hot(label, given.side)
    yield "sort", lambda: x.sort()
    yield "sort of rows", lambda: matrix.sort(1)
    yield "topk", lambda: matrix.topk(10, 1)
    yield "bincount", lambda: given.places.bincount()


def orders(lib: Any, given: Arguments) -> Calls:
    """Operators that sort, count or compare with sorted numbers."""
    x, matrix, weight = given.x, given.matrix, given.weight
    edges = weight.sort()[0]
    yield "median of rows", lambda: matrix.median(1)
    yield "kthvalue", lambda: matrix.kthvalue(given.side // 2, 1)
    yield "quantile", lambda: matrix.quantile(0.3, 1)
    yield "unique", lambda: given.places.unique()
    yield "unique_consecutive", lambda: given.places.unique_consecutive()
    yield "searchsorted", lambda: lib.searchsorted(edges, x)
    yield "histc", lambda: lib.histc(x, 100)
    yield "isin", lambda: lib.isin(given.places, given.label)


def draws(lib: Any, given: Arguments) -> Calls:
    """Random numbers."""
    x, matrix = given.x, given.matrix
    size, weights = tuple(x.shape), given.y.reshape(given.side, -1)
    yield "rand", lambda: lib.rand(size, dtype=x.dtype)
    yield "randn", lambda: lib.randn(size, dtype=x.dtype)
    yield "normal_", lambda: x.clone().normal_(0.5, 2.0)
    yield "bernoulli", lambda: lib.bernoulli(given.part)
    yield "randint", lambda: lib.randint(0, 1000, size)
    yield "randperm", lambda: lib.randperm(len(x))
    yield "dropout", lambda: lib.nn.functional.dropout(matrix, 0.3)
    yield "multinomial", lambda: lib.multinomial(weights, 10, replacement=True)
    yield "multinomial of distinct", lambda: lib.multinomial(weights, 10)


def images(lib: Any, given: Arguments) -> Calls:
    image, f = given.image, lib.nn.functional
    yield "max_pool2d", lambda: f.max_pool2d(image, 2)
    yield "avg_pool2d", lambda: f.avg_pool2d(image, 3, 2)
    yield "adaptive_avg_pool2d", lambda: f.adaptive_avg_pool2d(image, 7)
    yield "adaptive_max_pool2d", lambda: f.adaptive_max_pool2d(image, 7)
    yield "unfold", lambda: f.unfold(image, 3)
    for mode in ("nearest", "bilinear", "bicubic"):
        yield f"interpolate {mode}", lambda mode=mode: f.interpolate(image, None, 2.0, mode)
    yield "interpolate to half", lambda: f.interpolate(image, None, 0.5, "bilinear")
    yield "pad reflect", lambda: f.pad(image, (2, 2, 2, 2), mode="reflect")


def complex_numbers(lib: Any, given: Arguments) -> Calls:
    z = given.complex
    for name in ("abs", "angle", "exp", "log", "reciprocal", "sqrt"):
        yield f"complex {name}", lambda name=name: getattr(lib, name)(z)
    yield "complex add", lambda: z + z
    yield "complex mul", lambda: z * z
    yield "complex div", lambda: z / z
    yield "complex sum", lambda: z.sum()


def gradients(lib: Any, given: Arguments) -> Calls:
    """Backward passes of one operator, with a gradient of its own for each element."""
    f, side = lib.nn.functional, given.side
    x, matrix, batch = (a.clone().requires_grad_() for a in (given.x, given.matrix, given.batch))
    weight, image, z = (
        a.clone().requires_grad_() for a in (given.weight, given.image, given.complex)
    )
    functions: list[tuple[str, Any, tuple[Any, ...]]] = [
        (name, lambda name=name: getattr(f, name)(x), (x,)) for name in BACKWARD
    ]
    functions += [
        ("exp", lambda: x.exp(), (x,)),
        ("mul", lambda: matrix * matrix, (matrix,)),
        ("mul row", lambda: matrix * weight, (matrix, weight)),
        ("add row", lambda: matrix + weight, (matrix, weight)),
        ("div", lambda: x / given.y, (x,)),
        ("atan2", lambda: lib.atan2(x, given.y), (x,)),
        ("complex mul", lambda: z * z, (z,)),
        ("complex square", lambda: z**2, (z,)),
        ("sum of rows", lambda: matrix.sum(1), (matrix,)),
        ("mean", lambda: x.mean(), (x,)),
        ("var of rows", lambda: matrix.var(1), (matrix,)),
        ("std of columns", lambda: matrix.std(0), (matrix,)),
        ("max of rows", lambda: matrix.max(1)[0], (matrix,)),
        ("index rows", lambda: matrix[given.label], (matrix,)),
        ("amax of rows", lambda: matrix.amax(1), (matrix,)),
        ("norm", lambda: x.norm(), (x,)),
        ("softmax", lambda: matrix.softmax(1), (matrix,)),
        ("log_softmax", lambda: matrix.log_softmax(1), (matrix,)),
        ("layer_norm", lambda: f.layer_norm(matrix, (side,), weight, weight), (matrix, weight)),
        ("batch_norm", lambda: f.batch_norm(batch, None, None, training=True), (batch,)),
        ("cross_entropy", lambda: f.cross_entropy(matrix, given.label), (matrix,)),
        ("mse_loss", lambda: f.mse_loss(x, given.y), (x,)),
        ("cumsum", lambda: matrix.cumsum(1), (matrix,)),
        ("gather", lambda: matrix.gather(1, given.index), (matrix,)),
        ("embedding", lambda: f.embedding(given.label, matrix), (matrix,)),
        ("cat", lambda: lib.cat([matrix, matrix]), (matrix,)),
        ("where", lambda: lib.where(given.mask, x, given.y), (x,)),
        ("maximum", lambda: lib.maximum(x, given.y), (x,)),
        ("l1_loss", lambda: f.l1_loss(x, given.y), (x,)),
        ("huber_loss", lambda: f.huber_loss(x, given.y), (x,)),
        ("logits", lambda: f.binary_cross_entropy_with_logits(x, given.part), (x,)),
        ("glu", lambda: f.glu(matrix), (matrix,)),
        ("logsumexp", lambda: matrix.logsumexp(1), (matrix,)),
        ("norm of rows", lambda: matrix.norm(dim=1), (matrix,)),
        ("sort of rows", lambda: matrix.sort(1)[0], (matrix,)),
        ("topk", lambda: matrix.topk(10, 1)[0], (matrix,)),
        ("index", lambda: x[given.places], (x,)),
        ("max_pool2d", lambda: f.max_pool2d(image, 2), (image,)),
        ("avg_pool2d", lambda: f.avg_pool2d(image, 3, 2), (image,)),
        ("interpolate", lambda: f.interpolate(image, None, 2.0, "bilinear"), (image,)),
        ("unfold", lambda: f.unfold(image, 3), (image,)),
    ]
    for name, make, inputs in functions:
        result = make()
        ones = result.detach().clone()
        yield (
            f"{name} backward",
            lambda result=result, inputs=inputs, ones=ones: lib.autograd.grad(
                result, inputs, ones, retain_graph=True
            ),
        )


def other_types(lib: Any, given: Arguments, dtype: str) -> Calls:
    """The operators that people use on halves, or on whole numbers."""
    x, y, matrix, f = given.x, given.y, given.matrix, lib.nn.functional
    for name in ("add", "mul", "maximum", "gt", "eq"):
        yield name, lambda name=name: getattr(lib, name)(y, x)
    for name in ("abs", "neg", "sign"):
        yield name, lambda name=name: getattr(lib, name)(x)
    yield "add row", lambda: matrix + given.weight
    yield "clamp", lambda: lib.clamp(x, 3, 9)
    yield "where mask", lambda: lib.where(given.mask, x, y)
    yield "to float32", lambda: x.to(lib.float32)
    yield "sum", lambda: x.sum()
    yield "sum of rows", lambda: matrix.sum(1)
    yield "sum of columns", lambda: matrix.sum(0)
    yield "amax of rows", lambda: matrix.amax(1)
    yield "argmax of rows", lambda: matrix.argmax(1)
    yield "cumsum of rows", lambda: matrix.cumsum(1)
    yield "gather", lambda: matrix.gather(1, given.index)
    yield "transpose", lambda: matrix.t().contiguous()
    yield "sort of rows", lambda: matrix.sort(1)
    if "int" in dtype:
        for name in ("floor_divide", "remainder", "bitwise_and"):
            yield name, lambda name=name: getattr(lib, name)(x, 7)
        return
    for name in ("div", "exp", "log", "sigmoid", "tanh"):
        call = getattr(lib, name)
        yield name, lambda call=call, name=name: call(y, y) if name == "div" else call(y)
    for name in ("gelu", "relu", "silu"):
        yield name, lambda name=name: getattr(f, name)(x)
    yield "mean of rows", lambda: matrix.mean(1)
    yield "softmax", lambda: matrix.softmax(1)
    yield "layer_norm", lambda: f.layer_norm(matrix, (given.side,), given.weight, given.weight)
    yield "batch_norm", lambda: f.batch_norm(given.batch, None, None, training=True)


def serve(library: str, size: int, dtype: str, pattern: str) -> None:
    """Time one operator for each line that asks for it."""
    clock = time.process_time if os.environ["OMP_NUM_THREADS"] == "1" else time.perf_counter
    if library == "torch":
        import torch as lib

        lib.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    else:
        import adjoint as lib
    known = {name: call for name, call in calls(lib, size, dtype) if fnmatch.fnmatch(name, pattern)}
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        call = known[line.strip()]
        call()
        start, count = clock(), 0
        while clock() - start < SECONDS:
            call()
            count += 1
        print((clock() - start) / count, flush=True)


def started(library: str, args: argparse.Namespace, dtype: str) -> subprocess.Popen[str]:
    settings = {"OMP_NUM_THREADS": str(args.threads), "ADJOINT_NATIVE": "wait"}
    command = [sys.executable, __file__, args.pattern, "--serve", library, "--dtype", dtype]
    return subprocess.Popen(
        [*command, "--size", str(args.size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env=os.environ | settings,
    )  # fmt: skip


def ask(process: subprocess.Popen[str], name: str) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    print(name, file=process.stdin, flush=True)
    return float(process.stdout.readline())


def compare(args: argparse.Namespace, dtype: str) -> dict[str, tuple[float, float]]:
    """Milliseconds of each operator, ours and PyTorch's."""
    ours, theirs = (started(library, args, dtype) for library in ("adjoint", "torch"))
    assert ours.stdout is not None
    assert theirs.stdout is not None
    names = json.loads(ours.stdout.readline())
    assert json.loads(theirs.stdout.readline()) == names
    found = {}
    for name in names:
        pairs = [(ask(ours, name), ask(theirs, name)) for _ in range(ROUNDS)]
        a, b = (1e3 * min(column) for column in zip(*pairs, strict=True))
        found[name] = a, b
        print(f"{dtype:8} {name:32} {a:9.3f} {b:9.3f}   {a / b:6.2f}", flush=True)
    for process in (ours, theirs):
        process.kill()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="*")
    parser.add_argument("--type", default="float[36]*", help="a pattern of dtypes: '*' for all")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.size, args.dtype, args.pattern)
        return
    print(f"{'dtype':8} {'operator':32}   adjoint     torch    ratio   (ms)")
    types = [t for t in TYPES if fnmatch.fnmatch(t, args.type)]
    found = {dtype: [a / b for a, b in compare(args, dtype).values()] for dtype in types}
    print()
    for dtype, ratios in (*found.items(), ("all", [r for each in found.values() for r in each])):
        if ratios:
            mean = math.exp(statistics.mean(map(math.log, ratios)))
            slow = sum(r > 1.5 for r in ratios)
            print(f"{dtype:8} {len(ratios)} operators: geometric mean {mean:.2f}, {slow} above 1.5")


if __name__ == "__main__":
    main()
