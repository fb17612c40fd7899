"""Random programs, as Python text, for comparing two ways of running them.

`Program(seed)` grows a function of float64 tensors (and of index tensors where it needs some), line
by line. Each line is a template of one of the tables below, filled with values that exist, and run
at once: what raises is left out, and what grows large is squashed, so that results stay comparable.
The same seed gives the same program. With `writes`, lines also change values that exist, and views
of them, and their shapes, in place; arguments are never changed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

SIZES = (1, 2, 3, 5, 7, 8, 16, 17, 33, 64)
LARGE_SIZES = (301, 1025, 2000, 5000)  # for loops that threads share
SCOPE = {"ad": ad, "F": ad.nn.functional}

# In templates {a} and {b} are tensors that broadcast, {c} a number, {d} a dimension of a, {n} its
# size, {ds} one or more dimensions, {keep} True or False, {i} an index tensor, {part} a slice.
UNARY = """{a}.sin() | {a}.cos() | {a}.tanh() | ({a} * 0.3).exp() | {a}.sigmoid() | {a}.square()
    -{a} | {a}.abs() | {a}.relu() | ({a}.abs() + 0.5).sqrt() | ({a}.abs() + 0.7).log() | {a} ** 3
    ({a}.square() + 1).reciprocal() | ({a} * 0.1).expm1() | {a}.erf() | {a}.clamp(-0.513, 0.827)
    F.softplus({a}) | F.silu({a}) | F.gelu({a}) | {a} * 2 + 1 | 1 - {a} | 2 / ({a}.abs() + 1)
    ({a}.abs() + 0.1) ** 1.7 | {a}.atan() | {a}.abs().log1p() | {a}.floor() * {a}
    {a}.sign() * {a} | {a}.asinh() | ({a} * 0.4).sinh() | {a}.clone() | {a}.detach() * {a}
    F.leaky_relu({a}, 0.1) | F.elu({a}) | {a}.frac() | ({a}.abs() + 1).rsqrt() | F.hardswish({a})
    {a}.clamp_min(0.11) | {a}.float().double() | {a}.trunc() + {a} | ({a} * 0.2).exp2()"""
BINARY = """{a} + {b} | {a} - {b} | {a} * {b} | {a} * {b} | {a} / ({b}.abs() + 1)
    ad.maximum({a}, {b}) | ad.minimum({a}, {b} * 0.9) | ad.atan2({a}, {b} + 3)
    ad.hypot({a}, {b} + 2) | {a} - {c} * {b} | ad.where({a} > {c}, {b}, {a})
    ad.logaddexp({a}, {b}) | ad.addcmul({a}, {b}, {b}) | ad.lerp({a}, {b}, {c})
    ad.where({b} < {c}, {a} * {c}, {b}.exp() * 0.1) | ad.add({a}, {b}, alpha=0.3)
    ({a} * {b}).sum() * {a} | ({a}.abs() + 0.2) ** {b} | ({a} - {b}).square() + {a}
    {a} * {b}.mean() + {b} | ad.where({a} > {b}, {a}, {c}) | {a} * {b} + {a} * {c}"""
VIEWS = """{a}[{part}] | {a}[{part}] | {a}[{part}] | {a}.transpose(0, {d}) | {a}.movedim(0, -1)
    {a}.mT | {a}.flip({d}) | {a}.flip(0, -1) | {a}.expand(3, *{a}.shape)
    {a}.select({d}, {n} // 2) | {a}.diagonal(0, 0, {d}) | {a}.diagonal(1, -2, -1)
    {a}.reshape({shape}) | {a}.reshape({shape}) | {a}.flatten({d}) | {a}.flatten(0, {d})
    {a}.unflatten({d}, (-1, 1)) | {a}.squeeze() | {a}.unsqueeze({d}) | {a}.unsqueeze(-1)
    {a}.unfold({d}, ({n} + 1) // 2, 1) | {a}.unfold({d}, ({n} + 2) // 3, 2) | {a}.tril()
    {a}.triu(1) | {a}.roll(1, {d}) | {a}.roll(-2, {d}) | {a}.repeat_interleave(2, {d})
    {a}.swapaxes(0, {d}).contiguous()"""
JOINS = """ad.cat([{a}, {a} * {c}], {d}) | ad.stack([{a}, {a}.sin()], {d})
    F.pad({a}, (1, 2), value={c}) | F.pad({a}, (2, 0, 1, 1))
    ad.cat([{a}.reshape(-1), {b}.reshape(-1)]) | ad.cat([{a}, {a}.flip({d})], {d})
    ad.cat([u.sum({d}, keepdim=True) for u in {a}.chunk(3, {d})], {d})
    {a}.repeat(2, *[1] * ({a}.ndim - 1))
    sum(u.sum() * (k + 1) for k, u in enumerate({a}.split(({n} + 1) // 2, {d})))
    sum(u * (k + 1) for k, u in enumerate({a}.unbind({d})[:4]))
    {a}.roll(1, 0) + {a}.roll(-1, 0)"""
WRITES = """{v} = {a}.clone(); {v}[{part}] += {c}
    {v} = {a} * 1.5; {v}[{part}] *= {v}[{part}].clone().sin()
    {v} = {a}.clone(); {v}[{part}] = {c}
    {v} = {a}.clone(); {v}[{part}] = {a}[{part}].exp() * 0.1
    {v} = ad.zeros_like({a}); {v}[{part}] = {a}[{part}]; {v}.mul_(0.7).add_({c})
    {v} = {a}.clone(); {v}.diagonal(0, 0, 1).fill_({c})"""
REDUCTIONS = """{a}.sum({ds}, keepdim={keep}) | {a}.mean({ds}, keepdim={keep})
    {a}.amax({ds}, keepdim={keep}) | ({a} * 2).amin({ds}, keepdim={keep})
    {a}.sin().prod({d}, keepdim={keep}) | {a}.logsumexp({ds}, keepdim={keep})
    {a}.var({ds}, correction=0, keepdim={keep}) | {a}.softmax({d}) | {a}.log_softmax({d})
    ({a} * {a}).sum() | {a}.exp().mean() | ({a} + 3).norm(dim={ds}, keepdim={keep})
    {a}.max({d}).values | {a}.prod() | {a}.amax({ds}, keepdim=True) * {a}
    {a} - {a}.mean({ds}, keepdim=True) | {a}.norm() * {a}
    {a} / ({a}.square().sum({ds}, keepdim=True) + 1) | F.layer_norm({a}, {a}.shape[-1:])
    ({a} > {c}).sum({ds}).double() * {a}.sum() | ({a} > {c}).any({d}).double() + {a}.sum({d})
    ad.where({a} > {c}, {a}, 0.0).sum({ds}) | {a}.cumsum({d}) | ({a} * 0.2 + 1).cumprod({d})
    {a}.flip({d}).cumsum({d}).flip({d}) | {a}.logcumsumexp({d}) | {a}.diff(dim={d})"""
PRODUCTS = """{a} @ {a}.mT | {a}.mT @ ({a} * 2).sin()
    ad.einsum('...ij,...kj->...ik', {a}, {a}.tanh()) | {a} @ {b} | {a} @ {b} | {a} @ {b}.mT
    {a}.outer({a}.sin()) | {a} @ {a}[0] | {a}[:, None] - {a}[None] * 0.5
    ad.einsum('i...,i...->...', {a}, {a}) | F.linear({a}, {a}.reshape(-1, {a}.shape[-1])[:5])"""
INDICES = """{a}.index_select({d}, {i}) | {a}.movedim({d}, 0)[{i}]
    {a}.movedim({d}, -1)[..., {i}] | {a}.movedim({d}, 0)[{i}, ..., None]
    {a}.movedim({d}, 0).take({i}) | {a}.index_fill({d}, {i}, {c})
    {a}.index_add({d}, {i}, {a}.index_select({d}, {i}) * 0.5)
    {a}.take_along_dim({a}.argsort({d}), {d})
    {a}.movedim({d}, 0).index_put(({i},), {a}.movedim({d}, 0)[0].cos(), accumulate=True)
    {a}.scatter_add({d}, {a}.argsort({d}) // 2, {a}.sin())
    {a}.gather({d}, {a}.argsort({d}).flip({d}))
    ad.zeros_like({a}).index_add({d}, {i}, {a}.index_select({d}, {i})) + {a}
    {a}.sort({d}).values | {a}.masked_fill({a} > {c}, {c}) | {a} * ({a} > {c})
    {a} + ({a} * 3).long() % 3 | {a}.topk(1, {d}).values
    {a} * (({a} > {c}).long().cumsum({d}) * 2 - 1) | {a} * ~(({a} > {c}) ^ ({a} < 0))
    {a}.cummax({d}).values | ad.where({a}.argmax({d}, keepdim=True) > 0, {a}, {a} * {c})
    {a} * ad.arange({n}).sum() * 0.1"""
LOOPS = """ad.scan(lambda c, s: ((c * 0.7 + s).tanh(), s * c), {a}[0] * 0.5, {a})[{k}]
    ad.scan(lambda c, s: ((c * s).sin() + 0.1 * c, c.sum()), {a}[0], {a}, reverse=True)[{k}]
    ad.scan(lambda c, s: ((c[1], c[0] * 0.5 + s), c[0].sum() * s), ({a}[0], {a}[-1]), {a})[0][{k}]
    ad.scan(lambda c, s: (ad.where(c > s, c, s) * 0.9, (c * 2, s.amax())), {a}[0], {a})[1][{k}]
    ad.fori_loop(0, 4, lambda i, c: c * 0.5 + i * 0.1, {a})
    ad.fori_loop(0, 3, lambda i, c: c.flip(0) * 0.9, {a})
    ad.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1].sin()), (ad.tensor(0), {a}))[1]
    ad.cond({a}.sum() > {c}, lambda u: u.sin() * 2, lambda u: u * u + 1, {a})
    ad.scan(lambda c, s: (ad.fori_loop(0, 3, lambda _, d: d * 0.5 + s, c), c), {a}[0], {a})[{k}]"""
MATRICES = """ad.linalg.cholesky({spd}) | ad.linalg.cholesky({spd}, upper=True)
    ad.linalg.solve({spd}, {a})
    ad.linalg.solve_triangular(ad.linalg.cholesky({spd}), {a}, upper=False)
    ad.linalg.slogdet({spd})[1] | ad.linalg.solve_triangular({spd}.triu(), {a}, upper=True)
    ad.linalg.inv({spd}) | ad.linalg.eigvalsh({spd})
    ad.linalg.solve_triangular({spd}.tril(), {a}.mT, upper=False, left=False)"""
TRANSFORMS = """ad.vmap(lambda u: u.sin() * u.sum())({a})
    ad.grad(lambda u: (u.sin() * u).sum())({a})
    ad.grad(lambda u: u.square().sum().log1p() + u.amax())({a})
    ad.jvp(lambda u: (u * 2).tanh(), ({a},), ({a},))[1]
    ad.vmap(ad.grad(lambda u: u.square().sum().sqrt() + u.prod()))({a})
    ad.jacobian(lambda u: u.sin() * u.sum())({a}[:4])
    ad.vmap(lambda u, w: u * w.sum(), (0, None))({a}, {a})
    ad.hessian(lambda u: u.prod().sin())({a}.reshape(-1)[:6])
    ad.vmap(lambda u: ad.scan(lambda c, s: (c * 0.5 + s, c), u.sum(), u)[1])({a})"""

# -- with `writes`: {w} is a value that may be changed -----------------------------------------
REWRITES = """{w}.mul_({c}) | {w}.add_({b} * 0.3) | {w}.sin_() | {w}.tanh_() | {w}.copy_({b} * 0.5)
    {w}.zero_() | {w}.fill_({c}) | {w}.clamp_(-0.7, 0.9) | {w}.mul_({b}.sigmoid()) | {w}.neg_()
    {w}[{part}] = {c} | {w}[{part}].mul_({c}) | {w}[{part}] += {c} | {w}[{part}] = {b}[{part}]
    {w}[{part}] *= {w}[{part}].clone().sin() | {w}.select({d}, {n} // 2).tanh_()
    {w}.diagonal(0, 0, {d}).mul_({c}) | {w}.transpose(0, {d})[{part}].add_({c})
    {w}.unfold({d}, 1, 2).mul_({c}) | {w}.view(-1)[1:].mul_({c})
    {w}.movedim(0, -1).mul_({w}.sum() * 0.1) | {w}.split(({n} + 1) // 2, {d})[0].mul_({c})
    {w}.masked_fill_({b} > {c}, {c}) | {w}.index_fill_({d}, {i}, {c}) | {w}.detach().mul_({c})
    {w}.index_add_({d}, {i}, {b}.index_select({d}, {i}) * 0.5) | {w}.expand(2, *{w}.shape)[0].neg_()
    {w}.view(-1)[1::2] = {c} | {w}.unsqueeze(-1).squeeze(-1).mul_({c}) | {w}.squeeze().neg_()
    {w}.sub_({w}.mean()) | {w}.div_({b}.abs() + 1) | {w}.mul_({w}.clone().cos()) | {w}.relu_()"""
RESHAPES = """{w}.unsqueeze_({d}) | {w}.unsqueeze_(-1) | {w}.unsqueeze_(0) | {w}.squeeze_()
    {w}.squeeze_({d}) | {w}.t_() | {w}.transpose_(0, {d}) | {w}.transpose_(-1, 0)
    {w}.swapaxes_(0, {d}) | {w}.swapdims_(0, -1) | {w}.unsqueeze_({d}).mul_({c})
    {w}.transpose_(0, -1).add_({c}) | {w}.squeeze_().unsqueeze_(0) | {w}.t_().t_()"""
MIXED = """{v} = {a}.float(); {v}.mul_({c}); {v} = {v}.double()
    {v} = ({a} * 3).long(); {v}.unsqueeze_(0); {v} = {v} * {a}
    {v} = ad.complex({a}, {a} * {c}); {v}.real.mul_(2); {v} = {v}.imag * {v}.real
    {v} = ad.view_as_complex(ad.stack([{a}, {a}.sin()], -1)); {v} = ({v} * {v}).abs()
    {v} = ad.complex({a}, {b}); {v} = ad.view_as_real({v} * {v}); {v}[..., 0].neg_()
    {v}, q = {a}.max({d}); q.unsqueeze_({d}); {v} = {v} + {a}.gather({d}, q).squeeze({d})
    {v}, q = {a}.sort({d}); {v} = {v} * (q + 1) | {v}, q = {a}.topk(1, {d}); {v}.unsqueeze_(0)
    {v}, q = {a}.cummax({d}); q.transpose_(0, {d}); {v} = {v} * q.transpose(0, {d})
    {v} = {a}.argsort({d}); {v}.t_(); {v} = {v} * 0.1
    {v} = ({a} > {c}); {v}.unsqueeze_({d}); {v} = {v} * {c}
    {v} = ad.zeros_like({a}); {v}.unsqueeze_({d}); {v}[:] = {a}.unsqueeze({d}).sin()
    {v} = {a}.clone(); {v}.transpose_(0, {d}); {v} = {v}.sigmoid() * {a}.amax()"""
BODIES = """ad.scan(lambda c, s: ((y := c * 0.5).add_(s).tanh_(), y.sum()), {a}[0], {a})[{k}]
    ad.scan(lambda c, s: ((y := {a}[0] * 1).mul_(c).sin_(), s * y), {a}[0], {a})[{k}]
    ad.scan(lambda c, s: ((y := ad.zeros_like({a}[0])).add_(c).add_(s).sin_(), y), {a}[0], {a})[{k}]
    ad.scan(lambda c, s: ((y := c.clone()).unsqueeze_(0).neg_().squeeze_(0), s), {a}[0], {a})[{k}]
    ad.cond({a}.sum() > {c}, lambda u: (y := u.clone()).mul_(2).sin_(), lambda u: u * u + 1, {a})
    ad.cond({a}.sum() > {c}, lambda u: (y := {a} * 1).mul_(u), lambda u: u.sin(), {a})
    ad.fori_loop(0, 3, lambda i, c: (y := c * 1).mul_(0.5).add_({a}), {a})
    ad.fori_loop(0, 3, lambda i, c: {a}.clone().mul_(c), {a})
    ad.while_loop(lambda c: c.sum() < 0, lambda c: (y := {a} * 1).mul_(c).abs_(), {a})
    ad.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, {a} * 1), (ad.tensor(0), {a}))[1].sin_()
    ad.vmap(lambda u: (y := ad.zeros_like(u)).add_(u).sin_())({a})
    ad.vmap(lambda u: (y := u.clone()).unsqueeze_(0).mul_(u.sum()).squeeze_(0))({a})
    ad.vmap(ad.grad(lambda u: (y := ad.zeros_like({a}[0])).add_(u.sin()).sum()))({a})
    ad.grad(lambda u: (y := u * 1).mul_(u).sin_().sum())({a})
    ad.jvp(lambda u: (y := {a}.clone()).mul_(u).tanh_(), ({a},), ({a} * 0.5,))[1]
    ad.vmap(lambda u: (y := {a}[0] * 1).mul_(u))({a})"""

TABLES = (
    (UNARY, 6), (BINARY, 8), (VIEWS, 7), (JOINS, 3), (WRITES, 2), (REDUCTIONS, 7), (PRODUCTS, 3),
    (INDICES, 4), (LOOPS, 1.2), (MATRICES, 0.7), (TRANSFORMS, 1),
)  # fmt: skip
WRITING = ((REWRITES, 20), (RESHAPES, 9), (MIXED, 5), (BODIES, 2.5))


def _split(tables: tuple[tuple[str, float], ...]) -> tuple[tuple[list[str], float], ...]:
    return tuple(
        ([t.strip() for line in table.splitlines() for t in line.split(" | ")], weight)
        for table, weight in tables
    )


TEMPLATES, WRITING_TEMPLATES = _split(TABLES), _split((*TABLES, *WRITING))


class Program:
    """A random function, its text, and arguments for it."""

    def __init__(
        self, seed: int, largest: int = 4000, *, threads: bool = False, writes: bool = False
    ) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.largest, self.threads = largest, threads
        self.templates = WRITING_TEMPLATES if writes else TEMPLATES
        self.values: dict[str, ad.Tensor] = {}
        self.lines: list[str] = []
        for k in range(self.random.randint(1, 3)):
            self.values[f"x{k}"] = self._input()
        self.floats = len(self.values)
        self.arguments = dict(self.values)
        wanted = self.random.randint(2, 12)
        for _ in range(8 * wanted):
            if len(self.lines) < wanted:
                self._grow()
        made = [v for v in self.values if v.startswith("v")] or ["x0"]
        self.results = list(dict.fromkeys([made[-1], *self.random.choices(made, k=2)]))

    def _input(self) -> ad.Tensor:
        """Numbers of any rank to 4; often of a shape that broadcasts with another input's."""
        shape = list(self.random.choice([*self.values.values()]).shape) if self.values else []
        if not self.values or self.random.random() < 0.5:
            shape = [
                self.random.choice(SIZES) for _ in range(self.random.choice([0, 1, 1, 2, 2, 3, 4]))
            ]
            if self.threads and shape:
                shape[self.random.randrange(len(shape))] = self.random.choice(LARGE_SIZES)
            if shape and self.random.random() < 0.02:
                shape[0] = 0
        shape = [1 if self.values and self.random.random() < 0.3 else s for s in shape]
        while math.prod(shape) > self.largest:
            shape.pop()
        return ad.tensor(np.asarray(self.numbers.uniform(-1.5, 1.5, shape)))

    # -- one line ---------------------------------------------------------------------------------

    def _grow(self) -> None:
        templates, weights = zip(*self.templates, strict=True)
        template = self.random.choice(self.random.choices(templates, weights)[0])
        if "{w}" in template:
            self._change(template)
            return
        a, value = self._pick(lambda _: True)
        name = f"v{len(self.lines)}"
        index = f"i{len(self.arguments) - self.floats}"
        text = template.format(**self._words(a, value), v=name, i=index)
        if not template.startswith("{v}"):
            text = f"{name} = {text}"
        scope: dict[str, Any] = {**SCOPE, **self.values}
        if "{i}" in template:
            scope[index] = self._index(value)
        if not (found := self._run(text, name, scope)):
            return
        self.lines.append(found[0])
        self.values[name] = found[1]
        if "{i}" in template:
            self.arguments[index] = self.values[index] = scope[index]

    def _change(self, template: str) -> None:
        """A line that changes a value in place; left out if it raises or changes an argument."""
        made = [n for n, v in self.values.items() if n.startswith("v") and v.numel()]
        if not made:
            return
        name = self.random.choice(made[-5:])
        value = self.values[name]
        given, index = dict(self.arguments), f"i{len(self.arguments) - self.floats}"
        if "{i}" in template:
            given[index] = self._index(value)
        line = template.format(**self._words(name, value), w=name, i=index)
        scope: dict[str, Any] = {**SCOPE, **{n: v.clone() for n, v in given.items()}}
        try:
            with np.errstate(all="ignore"):
                exec("\n".join([*self.lines, line]), scope)
        except Exception:
            return
        if any(_owner(scope[name]) is _owner(scope[n]) for n in given):
            return
        values = {n: scope[n] for n in (*self.values, *given)}
        if all(map(_is_moderate, values.values())) and all(
            np.array_equal(values[n].numpy(), v.numpy()) for n, v in given.items()
        ):
            self.lines.append(line)
            self.values, self.arguments = values, given

    def _run(self, text: str, name: str, scope: dict[str, Any]) -> tuple[str, ad.Tensor] | None:
        """The line, squashed if its result is large, and its result; None if it cannot be."""
        try:
            with np.errstate(all="ignore"):
                exec(text, scope)
        except Exception:
            return None
        result = scope[name]
        if not isinstance(result, ad.Tensor) or result.dtype is not ad.float64:
            return None
        if result.numel() > 4 * self.largest or result.ndim > 6:
            return None
        size = float(np.abs(result.numpy()).max(initial=0.0))
        if size <= 20:
            return text, result
        if not np.isfinite(size):
            return None
        text = f"{text}; {name} = ({name} * {3 / size:.3g}).tanh()"
        exec(text, scope)
        return text, scope[name]

    def _pick(self, fits: Callable[[ad.Tensor], bool]) -> tuple[str, ad.Tensor]:
        """One of the values, most often one of the last."""
        names = [n for n, v in self.values.items() if v.dtype is ad.float64 and fits(v)]
        name = self.random.choice(names[-4:] if self.random.random() < 0.6 else names)
        return name, self.values[name]

    def _words(self, a: str, value: ad.Tensor) -> dict[str, Any]:
        """What a template may mention, beside index tensors."""
        dim = self.random.randrange(max(value.ndim, 1))
        dims = sorted(self.random.sample(range(value.ndim), self.random.randint(1, value.ndim))
                      ) if value.ndim else []  # fmt: skip
        rows = value.shape[-2] if value.ndim > 1 else 0
        return {
            "a": a,
            "b": self._pick(lambda v: self._broadcasts(value, v))[0],
            "c": f"{self.random.uniform(-1, 1):.3f}",
            "d": dim,
            "n": value.shape[dim] if value.ndim else 1,
            "ds": tuple(dims),
            "keep": self.random.random() < 0.5,
            "k": self.random.randrange(2),
            "part": self._part(value),
            "shape": self._shape(value.numel()),
            "spd": f"({a} @ {a}.mT + {rows} * ad.eye({rows}, dtype=ad.float64))",
        }

    def _broadcasts(self, a: ad.Tensor, b: ad.Tensor) -> bool:
        try:
            return a is b or math.prod(np.broadcast_shapes(a.shape, b.shape)) <= 2 * self.largest
        except ValueError:
            return False

    def _part(self, value: ad.Tensor) -> str:
        """A slice with steps, single places and new dimensions."""
        parts = ["..."] if self.random.random() < 0.1 else []
        for size in value.shape[: value.ndim - self.random.choice([0, 0, 1])]:
            low = self.random.randint(0, size)
            high = self.random.randint(low, size)
            step = self.random.choice(["", "", ":2", ":3"])
            place = str(self.random.randrange(-size, size)) if size else ":"
            kinds = [":", f"{low}:{high}{step}", f"{low // 2}:{step}", place]
            parts.append(self.random.choices(kinds, [3, 3, 3, 1])[0])
        return ", ".join(parts) or "..."

    def _shape(self, total: int) -> str:
        """Another shape of as many elements."""
        sizes = []
        for _ in range(self.random.randrange(3)):
            divisors = [q for q in range(1, min(total, 64) + 1) if total % q == 0] or [1]
            sizes.append(self.random.choice(divisors))
            total //= sizes[-1]
        sizes.insert(self.random.randint(0, len(sizes)), total)
        return ", ".join(map(str, sizes))

    def _index(self, value: ad.Tensor) -> ad.Tensor:
        """Indices that are in range for every dimension."""
        shape = self.random.choice([(1,), (2,), (3,), (5,), (2, 3)])
        return ad.tensor(self.numbers.integers(0, min(value.shape, default=1) or 1, shape))

    # -- the whole --------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        body = "".join(f"    {line}\n" for line in self.lines)
        given = ", ".join(self.arguments)
        return f"def program({given}):\n{body}    return [{', '.join(self.results)}]\n"

    def __str__(self) -> str:
        shapes = ", ".join(f"{n}: {tuple(v.shape)}" for n, v in self.arguments.items())
        return f"{self.text}# {shapes}"

    def function(self) -> Callable[..., list[Any]]:
        scope: dict[str, Any] = dict(SCOPE)
        exec(self.text, scope)
        return scope["program"]

    def loss(self) -> Callable[..., Any]:
        """A combination of the results that has no symmetry."""
        function = self.function()

        def combined(*args: Any) -> Any:
            return sum((r * ad.tensor(weights(r.shape))).sum() for r in function(*args))

        return combined


def _owner(value: ad.Tensor) -> ad.Tensor:
    """The tensor whose memory a value has."""
    return value if value._base is None else value._base


def _is_moderate(value: ad.Tensor) -> bool:
    return value.ndim <= 6 and float(np.abs(value.numpy()).max(initial=0.0)) <= 20


def weights(shape: Any) -> Any:
    """Numbers without a symmetry, by which results are added up."""
    return np.cos(np.arange(math.prod(shape)) * 0.7 + 1).reshape(tuple(shape))


def modes(program: Program) -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """Functions with arguments: a program's values, its gradient, and one transform more."""
    given = list(program.arguments.values())
    count = program.floats
    function, loss = program.function(), program.loss()
    every = tuple(range(count))
    dims = (*[0] * count, *[None] * (len(given) - count))
    batch = [ad.stack([v, v * 0.5, v + 0.3]) for v in given[:count]] + given[count:]

    def pushed(*args: Any) -> Any:
        inputs = args[:count]
        directions = tuple(v * 0.3 + 0.1 for v in inputs)
        return ad.jvp(lambda *v: function(*v, *args[count:]), tuple(inputs), directions)

    def curvature(*args: Any) -> Any:
        gradient = ad.grad(loss)
        return ad.jvp(lambda v: gradient(v, *args[1:]), (args[0],), (args[0] * 0.2 + 0.1,))

    others = {
        "jvp": (pushed, given),
        "vmap": (ad.vmap(function, dims), batch),
        "vmap of grad": (ad.vmap(ad.grad(loss, argnums=every), dims), batch),
        "jvp of grad": (curvature, given),
    }
    if all(v.numel() <= 10 for v in given[:count]):
        others["hessian"] = (ad.hessian(loss, argnums=every), given)
    chosen = random.Random(program.text).choice(sorted(others))
    return {
        "value": (function, given),
        "gradient": (ad.value_and_grad(loss, argnums=every), given),
        chosen: others[chosen],
    }
