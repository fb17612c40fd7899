"""The page that lists where numbers differ from PyTorch's: docs/divergences.md.

Its sources are `tests/oracle/numbers.txt`, expressions with their truth, of which this measures the
values of PyTorch (the extra `oracle`) and of adjoint, and `tests/oracle/divergences.txt`, which the
comparison with PyTorch reads. `python -m docs.building.divergences` writes both tables; without
PyTorch its column stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import adjoint as ad
from adjoint.core.importing import imported

ROOT = Path(__file__).parents[2]
NUMBERS = ROOT / "tests" / "oracle" / "numbers.txt"
KNOWN = ROOT / "tests" / "oracle" / "divergences.txt"
PAGE = ROOT / "docs" / "divergences.md"


@dataclass(frozen=True)
class Number:
    """A line of numbers.txt."""

    expression: str  # "grad(t.tanh, 20.)"
    truth: float
    why: str

    def by(self, module: ModuleType) -> float:
        """The value by a module with PyTorch's names, in float64; NaN where it raises."""
        before = module.get_default_dtype()
        module.set_default_dtype(module.float64)
        try:
            words = {"t": module, "grad": _slope(module, 1), "grad2": _slope(module, 2)}
            return float(eval(self.expression, {**words, "inf": math.inf, "nan": math.nan}))
        finally:
            module.set_default_dtype(before)


def _slope(module: ModuleType, order: int) -> Callable[[Any, float], Any]:
    """A derivative of a function of one number, in reverse mode."""

    def at(f: Callable[[Any], Any], x: float) -> Any:
        for _ in range(order):
            f = module.func.grad(f)
        return f(module.tensor(x))

    return at


def lines(path: Path) -> Iterator[list[str]]:
    """The lines of a list, split at bars."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield [part.strip() for part in line.split(" | ")]


def numbers() -> list[Number]:
    """All lines of numbers.txt."""
    return [Number(said, float(truth), why) for said, truth, why in lines(NUMBERS)]


def shown(value: float) -> str:
    """A number as the page shows it.

    >>> shown(1 / 3), shown(2.0), shown(math.nan)
    ('0.3333333333', '2', 'NaN')
    """
    return "NaN" if math.isnan(value) else f"{value:.10g}".replace("inf", "∞")


def table_of_numbers(rivals: dict[str, str]) -> str:
    """The table of numbers in Markdown; `rivals` are the values of PyTorch as they are shown."""
    head = "| expression | PyTorch 2.13 | adjoint | truth | why |"
    under = "| --- | ---: | ---: | ---: | --- |"
    rows = []
    for n in numbers():
        cells = f"`{n.expression}`", rivals[n.expression], shown(n.by(ad)), shown(n.truth), n.why
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([head, under, *rows]) + "\n"


def table_of_known() -> str:
    """The table of the divergences that the comparison knows, those of one reason together."""
    found: dict[str, list[str]] = {}
    for operator, check, dtype, reason in lines(KNOWN):
        where = f"`{operator}`" + (f" ({check})" if check != "*" else "")
        found.setdefault(reason, []).append(where + ("" if dtype == "*" else f" {dtype}"))
    rows = [f"| {', '.join(dict.fromkeys(who))} | {why} |" for why, who in found.items()]
    return "\n".join(["| operator (what differs) dtypes | why |\n| --- | --- |", *rows]) + "\n"


def measured() -> dict[str, str]:
    """The values of PyTorch, as they are shown."""
    torch = imported("torch")
    return {n.expression: shown(n.by(torch)) for n in numbers()}


def published(page: str) -> dict[str, str]:
    """The values of PyTorch that a page has."""
    table = _between(page, "numbers")
    rows = [row.split(" | ") for row in table.splitlines() if row.startswith("| `")]
    return {row[0][3:-1]: row[1] for row in rows}


def _between(page: str, name: str) -> str:
    return page.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- end of {name} -->")[0]


def with_tables(page: str, rivals: dict[str, str]) -> str:
    """The page with new tables between its marks."""
    for name, table in (("numbers", table_of_numbers(rivals)), ("known", table_of_known())):
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        after = rest.partition(f"<!-- end of {name} -->")[1:]
        page = before + mark + table + "".join(after)
    return page


def main() -> None:
    """Write the tables into the page."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), measured()), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(numbers())} numbers")


if __name__ == "__main__":
    main()
