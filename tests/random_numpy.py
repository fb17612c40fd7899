"""Random NumPy programs, as text: loops over elements, swaps, views, masks, methods, writes.

A program is a function of one array that returns a number. It is written for NumPy, and runs on
NumPy's own arrays as well as on those that a transform lets it see. Which names are views of which
does not matter here: NumPy's own result is the truth.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SIZE = 4  # of a vector; matrices are SIZE by SIZE


@dataclass
class Names:
    """The variables of a program that are there at a place in its text."""

    vectors: list[str] = field(default_factory=lambda: ["x"])
    shorts: dict[str, int] = field(default_factory=dict)  # vectors of another length
    matrices: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)

    def copy(self) -> Names:
        """The same names; a block adds its own."""
        return Names([*self.vectors], dict(self.shorts), [*self.matrices], [*self.numbers])


class Writer:
    """Writes a program, line by line."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.indent = "    "

    def text(self, length: int) -> str:
        """A program of about so many statements."""
        names = Names()
        if self.chance(0.6):
            self.line("v0 = x.copy()" if self.chance(0.5) else "v0 = x * 1.5")
            names.vectors.append("v0")
        self.count = 1
        for _ in range(length):
            self.statement(names, depth=0)
        self.line(f"return {self.total(names)}")
        return "def program(x):\n" + "\n".join(self.lines) + "\n"

    # -- choices ---------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def new(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def pick(self, values: list[str]) -> str:
        return self.random.choice(values)

    def constant(self) -> str:
        return self.pick(["0.5", "2.0", "-1.5", "0.3", "3", "-2", "0.25", "1"])

    def index(self, size: int = SIZE) -> str:
        return str(self.random.randrange(-size, size))

    def place(self, size: int = SIZE) -> str:
        """An index that is not counted from the end."""
        return str(self.random.randrange(size))

    def vector(self, names: Names) -> str:
        return self.pick(names.vectors[-4:])

    def matrix(self, names: Names) -> str:
        return self.pick(names.matrices[-3:])

    def operand(self, names: Names) -> str:
        """What a vector may be combined with."""
        options = [self.vector(names), self.constant(), self.vector(names)]
        if names.numbers:
            options.append(self.pick(names.numbers[-3:]))
        if self.chance(0.15):
            options = ["[1.0, -0.5, 0.25, 2.0]", "(1, 2, 3, 4)", "WEIGHTS"]
        return self.pick(options)

    def number(self, names: Names) -> str:
        """An expression of one number."""
        v = self.vector(names)
        options = [
            f"{v}[{self.index()}]", f"{v}.sum()", f"np.mean({v})", f"{v}.std()", f"{v}.var(ddof=1)",
            f"{v}.max()", f"np.min({v})", f"{v} @ {self.vector(names)}", f"np.linalg.norm({v} + 3)",
            f"{v}.dot(WEIGHTS)", f"np.ptp({v})", f"np.median({v})", f"{v}.prod()", f"sum({v})",
            f"{v}[{self.index()}] * {v}[{self.index()}]", f"max({v})", f"{v}.mean(axis=0)",
            f"np.cumsum({v})[{self.index()}]", f"np.sort({v})[{self.index()}]",
            f"{v}[{v}.argmax()]", f"np.average({v}, weights=[1, 2, 3, 4])",
            f"abs({v}[{self.index()}])", f"{v}.flat[{self.index()}]", f"{v}.take({self.place()})",
        ]  # fmt: skip
        if names.matrices:
            m = self.matrix(names)
            options += [
                f"{m}[{self.index()}, {self.index()}]", f"np.trace({m})", f"{m}.sum()",
                f"{m}[{self.index()}][{self.index()}]", f"{m}.T[{self.index()}, {self.index()}]",
                f"np.einsum('ij,ij->', {m}, {m}) * 0.1", f"{m}.diagonal().sum()", f"{m}.std()",
            ]  # fmt: skip
        return self.pick(options)

    # -- statements ------------------------------------------------------------------------------

    def statement(self, names: Names, depth: int) -> None:
        kinds: list[tuple[float, Callable[[Names], None]]] = [
            (5, self.new_vector), (4, self.new_number), (7, self.write_vector),
            (4, self.change_number), (1.5, self.alias),
            (1.5, self.new_matrix if not names.matrices else self.write_matrix),
            (1, self.new_matrix), (1, self.short), (1.5, self.swap),
        ]  # fmt: skip
        if depth < 2:
            kinds += [(3, lambda n: self.block(n, depth))]
        weights = [w for w, _ in kinds]
        self.random.choices([k for _, k in kinds], weights)[0](names)

    def new_vector(self, names: Names) -> None:
        v, w, c = self.vector(names), self.operand(names), self.constant()
        i, j = self.index(), self.index()
        options = [
            f"{v} + {w}", f"{v} * {w}", f"{w} - {v}", f"np.sin({v})", f"np.tanh({v}) * {w}",
            f"{v}.copy()", f"np.exp(-{v}**2)", f"np.zeros_like({v})", f"np.ones_like({v}) * {c}",
            f"{v}[::-1]", f"np.flip({v})", f"{v}[[{i}, {j}, 0, 1]]", f"{v}.cumsum()",
            f"np.sort({v})",
            f"np.roll({v}, 1)", f"np.where({v} > {c}, {v}, {w})", f"{v}.clip(-1, 1)", f"{v}[:]",
            f"np.concatenate([{v}[1:], {v}[:1]])",
            f"np.stack([{v}[{i}], {v}[{j}], {v}[0], {v}[1]])",
            f"{v} / (1.0 + {v}**2)", f"np.maximum({v}, {w})", f"np.abs({v})", f"{v}.round(1) + {v}",
            f"{v} ** 2", f"-{v}", f"np.repeat({v}, 2)[::2]", f"{v}.reshape(2, 2).T.ravel()",
            f"{v}.reshape(2, 2).flatten()", f"{v}.reshape(-1)", f"np.ravel({v})",
            f"np.diff({v}, append=1.0)",
            f"np.array({v}.shape) * {v}", f"{v}.astype(float)", f"np.arange(4) * {v}",
            f"{v}.take([0, 2, 1, 1])", f"{v}[np.argsort({v})]", f"np.full_like({v}, {c})",
            f"np.linspace(0, 1, 4) * {v}", f"np.pad({v}[1:3], 1)", f"{v}.squeeze()",
            f"np.append({v}[:3], {c})",
            f"np.copy({v})", f"np.tile({v}[:2], 2)", f"np.hstack([{v}[:1], {v}[1:]])",
        ]  # fmt: skip
        if names.matrices:
            m = self.matrix(names)
            options += [
                f"{m}[{i}]", f"{m}[:, {j}]", f"{m} @ {v}", f"{m}.sum(axis=0)", f"{m}.mean(axis=1)",
                f"np.diag({m}) * 1.0", f"{m}.max(axis=0)", f"{m}[{i}, ::-1]", f"{m}.T[{i}]",
                f"{m}.std(axis=1)", f"{m}.ravel()[::5]", f"{m}.flatten()[:4]", f"{v} @ {m}",
                f"np.linalg.solve({m} * 0.01 + EYE, {v})", f"{m}[[0, 1, 2, 3], [1, 0, 3, 2]]",
                f"{m}[{self.place()}, [3, 1, 0, 2]]", f"{m}.min(0)",
                f"np.cumsum({m}, axis=1)[:, -1]",
            ]  # fmt: skip
        name = self.new("v")
        self.line(f"{name} = {self.pick(options)}")
        names.vectors.append(name)

    def new_matrix(self, names: Names) -> None:
        v, w = self.vector(names), self.vector(names)
        options = [
            f"np.outer({v}, {w})", f"{v}[:, None] * {w}", f"np.stack([{v}, {w}, {v} * 2, {w}])",
            f"np.zeros((4, 4)) + {v}", f"np.diag({v}) + 0.5",
            f"{v} + np.arange(16.0).reshape(4, 4)",
            f"np.tile({v}, (4, 1))", f"np.vstack([{v}] * 4)", f"EYE * {v}",
        ]  # fmt: skip
        if names.matrices:
            m = self.matrix(names)
            options += [f"{m}.T", f"{m}.copy()", f"{m} * {v}", f"np.tanh({m})", f"{m}[::-1]",
                        f"{m} @ EYE", f"{m}[:, ::-1]", f"np.triu({m})",
                        f"{m}.reshape(2, 8).reshape(4, 4)",
                        f"{m}.swapaxes(0, 1)", f"np.sort({m}, axis=0)",
                        f"np.rot90({m})"]  # fmt: skip
        name = self.new("m")
        self.line(f"{name} = {self.pick(options)}")
        names.matrices.append(name)

    def short(self, names: Names) -> None:
        """A vector of another length: a part, or what a mask leaves."""
        v, name = self.vector(names), self.new("p")
        text, size = self.random.choice([
            (f"{v}[1:]", 3), (f"{v}[:2]", 2), (f"{v}[::2]", 2), (f"{v}[1:3]", 2), (f"{v}[-3:]", 3),
            (f"{v}[[1, 3]]", 2), (f"np.split({v}, 2)[1]", 2), (f"np.delete({v}, 1)", 3),
        ])  # fmt: skip
        self.line(f"{name} = {text}")
        names.shorts[name] = size
        i = self.index(size)
        change = self.pick([
            f"{name} *= {self.constant()}", f"{name}[{i}] = {self.number(names)}",
            f"{name} += {v}[:{size}]", f"{name}[:] = {self.constant()}", f"{name}[{i}] += 1.0",
            f"{name}.sort()", f"{name} -= {name}.mean()", f"{name}[::-1][0] = {self.constant()}",
        ])  # fmt: skip
        if self.chance(0.7):
            self.line(change)

    def new_number(self, names: Names) -> None:
        name, text = self.new("s"), self.number(names)
        self.line(f"{name} = {text}")
        names.numbers.append(name)

    def change_number(self, names: Names) -> None:
        if not names.numbers:
            return self.new_number(names)
        s, t = self.pick(names.numbers), self.pick(names.numbers)
        self.line(self.pick([
            f"{s} += {self.number(names)}", f"{s} *= {self.constant()}", f"{s} -= {t}",
            f"{s} = {t}", f"{s}, {t} = {t}, {s}", f"{s} /= 1 + {t} ** 2", f"{s} = np.tanh({s})",
            f"{s} += 1", f"{s} = np.sin({s}) + {t}", f"{s} **= 2", f"{s} = min({s}, {t}) + 0.1",
            f"{s} = np.maximum({s}, {t})", f"{s} = -{s}", f"{s} = {s} + {t} * 0.5",
        ]))  # fmt: skip
        return None

    def alias(self, names: Names) -> None:
        if names.numbers and self.chance(0.5):
            name = self.new("s")
            self.line(f"{name} = {self.pick(names.numbers)}")
            names.numbers.append(name)
        else:
            name = self.new("v")
            self.line(f"{name} = {self.vector(names)}")
            names.vectors.append(name)

    def swap(self, names: Names) -> None:
        v, i, j = self.vector(names), self.index(), self.index()
        if self.chance(0.6):
            self.line(f"{v}[{i}], {v}[{j}] = {v}[{j}], {v}[{i}]")
        else:
            self.line(f"t = {v}[{i}]; {v}[{i}] = {v}[{j}]; {v}[{j}] = t")
        if names.matrices and self.chance(0.3):
            m = self.matrix(names)
            self.line(f"{m}[[0, 2]] = {m}[[2, 0]]")

    def write_vector(self, names: Names) -> None:
        v, w, c = self.vector(names), self.operand(names), self.constant()
        i, j = self.index(), self.index()
        s = self.number(names)
        options = [
            f"{v} += {w}", f"{v} *= {w}", f"{v} -= {s}", f"{v} /= 1.5", f"{v} **= 2",
            f"{v}[{i}] = {s}",
            f"{v}[{i}] += {s}", f"{v}[{i}] *= {v}[{j}]", f"{v}[{i}] = {v}[{j}]",
            f"{v}[1:] = {v}[:-1]",
            f"{v}[1:] += {v}[:-1]", f"{v}[::2] *= {c}", f"{v}[{v} > {c}] = {c}",
            f"{v}[{v} < 0] *= {c}",
            f"{v}[[0, 2]] = {v}[[2, 1]]", f"{v}[[1, 1, 3]] += {c}", f"{v}.sort()", f"{v}.fill({s})",
            f"{v}[:] = {w}", f"{v}[...] = np.sin({v})", f"np.add({v}, {w}, out={v})",
            f"np.sin({v}, out={v})",
            f"np.add.at({v}, [0, 1, 0], {c})", f"np.copyto({v}, {c}, where={v} > 0)",
            f"np.put({v}, [{self.place()}], {s})", f"{v}[::-1][{i}] = {s}", f"{v}.flat[{i}] = {s}",
            f"{v}[:2] = {v}[2:]", f"{v}[-1] = {v}[0]", f"{v}.reshape(2, 2)[{self.place(2)}] = {c}",
            f"{v}[1:3] -= {v}[:2] * {c}", f"{v}[{v}.argmin()] = {c}",
            f"np.putmask({v}, {v} > 1, {c})",
            f"{v}[np.array([True, False, True, False])] = {c}", f"np.flip({v})[1:] *= {c}",
            f"{v}[:] = {v}[::-1]", f"{v}[1:] = {w}[1:]" if w[0] == "v" else f"{v}[0] = {c}",
            f"{v}.partition(2)", f"np.multiply({v}, {c}, out={v})", f"{v}[{i}:] = {s}",
        ]  # fmt: skip
        self.line(self.pick(options))

    def write_matrix(self, names: Names) -> None:
        m, v, c = self.matrix(names), self.vector(names), self.constant()
        i, j = self.index(), self.index()
        self.line(self.pick([
            f"{m}[{i}] = {v}", f"{m}[:, {j}] += {v}", f"{m}[{i}, {j}] = {self.number(names)}",
            f"{m} += {v}", f"{m} *= {v}[:, None]", f"{m}[{i}, 1:] = {c}", f"{m}[{m} > 1] = {c}",
            f"np.fill_diagonal({m}, {c})", f"{m}.T[{i}] = {v}", f"{m}[1:, :2] *= {c}",
            f"{m}[{i}] -= {m}[{j}] * {c}", f"{m}.sort(axis=0)", f"{m}.ravel()[3] = {c}",
            f"{m}.flatten()[3] = {c}", f"{m}[range(4), range(4)] = {v}", f"{m}[:, [0, 2]] = {c}",
            f"{m}[{i}][{j}] = {c}", f"{m}[::2] += {m}[1::2]", f"{m}[:] = {m}.T", f"{m}.T[:] = {v}",
            f"{m}[[0, 1], [1, 0]] += {c}", f"{m}[{i}, [0, 1]] = {v}[:2]", f"{m}.flat[5] = {c}",
            f"{m} /= 2.0", f"{m}[...] = np.tanh({m})", f"{m}[::-1, 0] = {v}",
        ]))  # fmt: skip

    def block(self, names: Names, depth: int) -> None:
        """A loop or a choice, with statements of its own."""
        inner = names.copy()
        v, s = self.vector(names), self.new("s")
        kind = self.random.randrange(7)
        before = self.indent
        if kind == 0 or (kind == 4 and not names.matrices):
            self.line(f"{s} = 0.0")
            self.line(f"for i in range({self.random.randrange(2, 5)}):")
            body = [f"{s} += {v}[i] * {self.constant()}", f"{v}[i] = {v}[i - 1] * 0.5 + {s}",
                    f"{v}[i] += {v}[(i + 1) % 4]", f"{s} *= {v}[i]",
                    f"{v}[i] = np.sin({s})"]  # fmt: skip
            names.numbers.append(s)
        elif kind == 1:
            self.line(f"{s} = {self.constant()}")
            self.line(f"for e in {v}:")
            body = [f"{s} += e * 0.5", f"e *= 2; {s} += e", f"{s} = {s} * 0.5 + e**2",
            f"e += {s}; {s} -= e",
                    f"{v}[1] += e; {s} += e"]  # fmt: skip
            names.numbers.append(s)
        elif kind == 2:
            self.line(f"{s} = {v}[0]")
            self.line(f"for i, e in enumerate({v}):")
            body = [f"{v}[i] = e * {s}", f"{s} += e; {v}[-1] += 0.1",
            f"{v}[i - 1] = e; {s} += {v}[i]",
                    f"{v}[i] -= 0.5 * e", f"e /= 2; {v}[i] += e"]  # fmt: skip
            names.numbers.append(s)
        elif kind == 3:
            self.line(f"if {self.number(names)} > {self.constant()}:")
            body = [f"{v}[{self.index()}] = {self.number(names)}", f"{v} *= 0.5", f"{v}.sort()"]
        elif kind == 4:
            m = self.matrix(names)
            self.line(f"for row in {m}:")
            body = ["row -= row.mean()", "row[0] = row[1] * 2", "row *= 0.5", "row[1:] += row[:-1]",
                    "row.sort()", f"row += {v}"]  # fmt: skip
        elif kind == 5:
            self.line(f"{s} = list({v})")
            self.line(f"for k in range(1, len({s})):")
            body = [f"{s}[k] += {s}[k - 1]", f"{s}[k] *= 0.5", f"{s}[k], {s}[0] = {s}[0], {s}[k]"]
        else:
            self.line(f"for i in range(3):\n{self.indent}    for j in range(3 - i):")
            self.indent += "    "
            body = [f"if {v}[j] > {v}[j + 1]: {v}[j], {v}[j + 1] = {v}[j + 1], {v}[j]",
                    f"{v}[i] += 0.1 * {v}[j]"]  # fmt: skip
        self.indent += "    "
        self.line(self.pick(body))
        if self.chance(0.4):
            self.statement(inner, depth + 1)
        self.indent = before
        if kind == 5:
            self.line(f"{s} = sum({s})")
            names.numbers.append(s)

    def total(self, names: Names) -> str:
        """A number that depends on all variables."""
        parts = [f"np.sum(np.tanh({v}) * WEIGHTS)" for v in dict.fromkeys(names.vectors[-6:])]
        parts += [f"np.tanh({p}).sum()" for p in names.shorts]
        parts += [f"np.sum(np.tanh({m} * 0.3) * TABLE)" for m in names.matrices[-3:]]
        parts += [f"np.tanh({s} * 0.2)" for s in dict.fromkeys(names.numbers[-5:])]
        return " + ".join(parts)


SCOPE: dict[str, Any] = {
    "WEIGHTS": np.array([1.0, -2.0, 0.5, 1.5]),
    "EYE": np.eye(SIZE),
    "TABLE": np.arange(16.0).reshape(4, 4) / 7 - 1,
}


def function_of(text: str, module: Any = np) -> Callable[[Any], Any]:
    """The function that a text defines, of NumPy or of another module with its names."""
    scope: dict[str, Any] = {"np": module, **SCOPE}
    exec(compile(text, "<program>", "exec"), scope)
    return scope["program"]
