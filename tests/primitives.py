"""Writes docs/primitives.md: what everything else decomposes to, and why.

    python -m tests.primitives      # after adding a row without a decomposition

The names come from the table; the reasons are here. A test compares the page with what this writes.
"""

from __future__ import annotations

from adjoint.graph.passes.decompose import primitives
from tests import ROOT

PAGE = ROOT / "docs" / "primitives.md"

# Why a family has primitives at all; the reason of an operator that is not named below.
FAMILIES: dict[str, str] = {
    "activation": "the direct formula keeps accuracy at the ends of the range",
    "attention": "the whole is far less memory than its parts: scores are never kept",
    "convolution": "products of matrices (BLAS) whose columns are windows of the input",
    "creation": "makes a tensor out of numbers, so there is nothing to decompose",
    "embedding": "reads or adds up rows by number, with rules for padding",
    "fft": "an algorithm (FFTPACK in SciPy), not a formula",
    "foreach": "one call for a list of tensors",
    "indexing": "moves elements to or from places that are values themselves",
    "linalg": "a factorisation or a solver (LAPACK), an iteration and not a formula",
    "loss": "the direct formula keeps accuracy that its parts lose",
    "matmul": "the inner loop of everything (BLAS)",
    "nested": "works on a list of sizes",
    "normalization": "statistics and scaling in one pass over memory",
    "pointwise": "arithmetic: one instruction, or one function of the mathematical library",
    "pooling": "loops over windows; the places of maxima are part of the result",
    "quantization": "rounds to a grid, with its own rule for the derivative",
    "random": "draws from the generator; how many numbers, in which order, is part of it",
    "recurrent": "a loop in time, faster as one kernel",
    "reduction": "a loop over elements with an accumulator",
    "resampling": "weights of neighbours by position, faster as one kernel",
    "scan": "a loop in which each step needs the one before",
    "shape": "another view of the same memory, or a copy of it",
    "sorting": "the order of values; comparisons alone need quadratic time",
    "sparse": "works on a list of places",
    "special": "a series or a rational approximation (SciPy), accurate to rounding",
}

# Reasons of their own, for operators that one might expect to be made of others.
REASONS: dict[str, str] = {
    "sub": "made of add and neg it would round -0 differently and cost a pass",
    "neg": "0 - x has the wrong sign at 0",
    "div": "a·(1/b) rounds twice",
    "_over": "div of a tensor made of the number would write and read one more array",
    "reciprocal": "as often needed as div, and one pass",
    "remainder": "x - y·floor(x/y) loses all digits for large x/y",
    "fmod": "x - y·trunc(x/y) loses all digits for large x/y",
    "pow": "exp(y·log x) fails for negative x and loses digits for large powers",
    "sqrt": "x**½ is less accurate and slower",
    "hypot": "√(x² + y²) overflows where the result does not",
    "expm1": "exp(x) - 1 loses all digits at 0",
    "log1p": "log(1 + x) loses all digits at 0",
    "sigmoid": "1/(1 + exp(-x)) has a derivative 0·∞ for very negative x",
    "tanh": "by exponentials it loses digits at 0 and overflows",
    "sinh": "by exponentials it loses digits at 0",
    "cosh": "kept beside sinh: each is the derivative of the other",
    "asinh": "by logarithms it loses digits at 0",
    "acosh": "by logarithms it loses digits at 1",
    "atanh": "by logarithms it loses digits at 0",
    "atan2": "needs the quadrant, infinities and signed zeros",
    "angle": "atan2 of the parts, with the real case a constant",
    "copysign": "reads the sign bit, also of 0 and NaN",
    "signbit": "reads the bit",
    "nextafter": "steps in the representation",
    "frexp": "splits the representation",
    "ldexp": "scales the exponent without rounding",
    "round": "half to even, one instruction",
    "maximum": "passes NaN on, which a where on x > y does not",
    "minimum": "passes NaN on, which a where on x < y does not",
    "gt": "not(x <= y) is wrong for NaN",
    "ge": "not(x < y) is wrong for NaN",
    "ne": "kept beside eq: NaN is unequal to itself, and isnan is made of it",
    "where": "the choice itself",
    "positive": "the tensor itself, as a view",
    "prod": "exp Σ log fails for zeros and negative numbers",
    "amax": "its derivative is shared among ties",
    "amin": "its derivative is shared among ties; -amax(-x) fails for integers",
    "max": "with places; ties go to the first",
    "min": "with places; ties go to the first",
    "any": "stops at the first; all is made of it",
    "argmax": "the place of the first maximum",
    "argmin": "the place of the first minimum",
    "mm": "the matrix product (BLAS)",
    "bmm": "a batch of matrix products (BLAS)",
    "matmul": "chooses among products by the numbers of dimensions, without copies",
    "as_strided": "any view of memory",
    "slice": "the view behind x[a:b]",
    "select": "the view behind x[i]",
    "expand": "repeats without memory",
    "permute": "every transposition",
    "reshape": "a view where it can be, else a copy",
    "view": "a view or an error",
    "detach": "the end of a derivative: nothing else says so",
    "clone": "new memory",
    "_to_copy": "another dtype",
    "empty": "memory without a value",
    "full": "zeros and ones are made of it",
    "combinations": "the count of results depends on n and r",
    "repeat_interleave": "the size of the result is a value",
    "logcumsumexp": "log cumsum exp overflows where the result does not",
    "_linear_recurrence": "the derivative of cumprod in one pass, zeros included",
    "hash_tensor": "arithmetic on bits",
    "segment_reduce": "segments of different lengths",
}

HEAD = """# Primitives

Most rows of the table have a decomposition into other rows, and many of these a kernel too, for
speed; a law says that both ways give the same values and gradients. What has none is a *primitive*:
it needs a kernel, a shape rule, a derivative and a batching rule of its own, and a compiler must
know it. They are the {names} below (overloads are counted once). `ad.decompose(graph)` leaves only
these; `ad.decompositions.table` holds the decompositions.

Views that change a tensor itself (`squeeze_`) never occur in a graph and are left out.

This page is written by `python -m tests.primitives`, and a test compares it with the table.
"""


def page() -> str:
    """The text of the page."""
    names = names_by_family()
    parts = [HEAD.format(names=sum(map(len, names.values())))]
    for family in sorted(names):
        parts.append(f"## {family}\n\nIn general: {FAMILIES[family]}.\n")
        for name, overloads in sorted(names[family].items()):
            shown = "" if overloads == ["default"] else f" ({', '.join(overloads)})"
            reason = f": {REASONS[name]}" if name in REASONS else ""
            parts.append(f"- `{name}`{shown}{reason}")
        parts.append("")
    return "\n".join(parts)


def names_by_family() -> dict[str, dict[str, list[str]]]:
    """Primitives that can occur in a graph: family -> name -> overloads."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in primitives():
        if not row.schema.mutates:
            overloads = found.setdefault(row.family, {}).setdefault(row.schema.name, [])
            overloads.append(row.schema.overload or "default")
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
