"""C functions that expressions call: their declarations and texts.

Most are written in the language of elements (`definitions.py`). They are inlined, so that a loop
around them is vectorised. Some C libraries have themselves, and functions with loops are C texts
(`expressions/special_functions.py`). A source declares the functions that it calls and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from adjoint.core.c_types import HALF_FUNCTIONS, HALF_TYPES
from adjoint.expressions import definitions, lanes, special_functions
from adjoint.expressions.c_text import called, function_text
from adjoint.expressions.definitions import SCALARS, VECTORS
from adjoint.expressions.trees import EarlyResult


def _library(ours: str, name: str, dtype: str, *given: str) -> str:
    """A function of the C library, under a name of ours."""
    declared = ", ".join(f"{dtype} {each}" for each in given)
    return f"""{dtype} {ours}({declared}) {{
  extern {dtype} {name}({declared});
  return {name}({", ".join(given)});
}}"""


_OF_COMPLEX = (
    "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
    "asinh", "acosh", "atanh",
)  # fmt: skip
_BESSEL = ("j0", "j1", "y0", "y1")


def _of_real(real: str, bits: str, suffix: str) -> dict[str, str]:
    """Functions of one real type that the C library has, or that C does in its own way."""
    found = {
        f"ad_c{n}{suffix}": _library(f"ad_c{n}{suffix}", f"c{n}{suffix}", f"{real} _Complex", "z")
        for n in _OF_COMPLEX
    }
    found[f"ad_cpower{suffix}"] = _library(
        f"ad_cpower{suffix}", f"cpow{suffix}", f"{real} _Complex", "z", "w"
    )
    # rounded once where that is quick
    found[f"ad_times_plus{suffix}"] = f"""\
{real} ad_times_plus{suffix}({real} a, {real} b, {real} c) {{
#ifdef __FP_FAST_FMA
  return fma{suffix}(a, b, c);
#else
  return a * b + c;
#endif
}}"""
    found[f"ad_bits{suffix}"] = f"""{bits} ad_bits{suffix}({real} x) {{
  const union {{ {real} x; {bits} bits; }} as = {{.x = x}};
  return as.bits;
}}"""
    found[f"ad_from_bits{suffix}"] = f"""{real} ad_from_bits{suffix}({bits} bits) {{
  const union {{ {bits} bits; {real} x; }} as = {{.bits = bits}};
  return as.x;
}}"""
    return found


OF_C = {
    **HALF_FUNCTIONS,
    **{f"ad_{name}": _library(f"ad_{name}", name, "double", "x") for name in _BESSEL},
    "ad_lgamma": """double ad_lgamma(double x) {
  extern double lgamma_r(double, int *);
  int sign;
  return lgamma_r(x, &sign);
}""",
    **_of_real("double", "unsigned long long", ""),
    **_of_real("float", "unsigned int", "f"),
}
# Functions with a rare case that cannot be vectorised: the function for common elements, which can
# be, and the condition of the rare case, with the same arguments.
COMMON = {
    name: (name.replace("ad_", "ad_near_"), "ad_is_far")
    for name in ("ad_fmod", "ad_remainder", "ad_floor_divide")
} | {
    "ad_lgamma": ("ad_near_lgamma", "ad_is_low"),
    "ad_expit_back": ("ad_near_expit_back", "ad_is_flat"),
    "ad_erfinv": ("ad_near_erfinv", "ad_is_end"),
}


@cache
def inlined() -> frozenset[str]:
    """The functions that are inlined into loops."""
    return definitions.names() | OF_C.keys()


@cache
def vectorized() -> frozenset[str]:
    """The functions that are fast only in vectors."""
    return frozenset((*VECTORS, *(f"{name}f" for name in VECTORS), *inlined()))


# gcc does not vectorise a loop with choices that calls sin() or cos(), which must not be builtins
# then; next to these, exponentials are the library's, too
_SINES = frozenset(("sin", "cos", "sinf", "cosf"))
_BESIDE_SINES = {
    f"ad_{name}{suffix}": f"{real} ad_{name}{suffix}({real} x) {{ return {name}{suffix}(x); }}"
    for name in ("exp", "tanh")
    for real, suffix in (("double", ""), ("float", "f"))
}
_POINTING = {  # functions of the C library that take other than real numbers
    "frexp": "double frexp(double, int *)", "ldexp": "double ldexp(double, int)",
    "jn": "double jn(int, double)", "yn": "double yn(int, double)",
}  # fmt: skip
_INLINE = "static inline __attribute__((always_inline)) "
# Where gcc computes an expression early in one branch only (partial redundancy elimination), the
# branches stay, and the loop has no vectors: logsumexp took four times as long.
_NO_PRE = '#pragma GCC optimize ("no-tree-pre")'


@cache
def text_of(name: str) -> str:
    """The C text of one of our functions or tables; "" for an unknown name."""
    if text := OF_C.get(name):
        return text
    found = definitions.find(name)
    return special_functions.called().get(name, "") if found is None else function_text(found)


@cache
def _calls(name: str) -> tuple[str, ...]:
    """The functions that one of ours calls, and the tables that it reads."""
    found = None if name in OF_C else definitions.find(name)
    if found is None:
        return tuple(special_functions.named_in(text_of(name)))
    return tuple(sorted({*called(found), *(_common(name) if _ends_early(name) else ())}))


@cache
def _common(name: str) -> tuple[str, ...]:
    """The function for common elements and the condition of the rare ones; () if there are none."""
    bare = name.removesuffix("f")
    for base, suffix in ((name, ""), (bare, name[len(bare) :])):
        if base in COMMON:
            return tuple(each + suffix for each in COMMON[base])
    return ()


@cache
def _ends_early(name: str) -> bool:
    """Whether a function, or one that it calls, has an early result: gcc does not vectorise it."""
    found = definitions.find(name)
    if found is None:
        return False
    early = any(isinstance(step, EarlyResult) for step in found.steps)
    return early or any(map(_ends_early, called(found)))


def _needed(names: Iterable[str]) -> tuple[dict[str, str], set[str]]:
    """(texts of our functions among some names, and of those that they call, in the order that C
    needs; the names of all of these).
    """
    given, ours = [*names], dict[str, str]()
    beside_sines = not _SINES.isdisjoint(given)
    used = {*given}
    _add_called(given, _BESIDE_SINES if beside_sines else {}, ours, used)
    return ours, used


def _add_called(
    names: Iterable[str], replaced: dict[str, str], ours: dict[str, str], used: set[str]
) -> None:
    """Add the texts of our functions among some names, each after the functions that it calls."""
    for name in dict.fromkeys(names):
        if name not in ours and (found := replaced.get(name) or text_of(name)):
            calls = special_functions.named_in(found) if name in replaced else _calls(name)
            ours[name] = found  # now, since functions may call each other
            used.update(calls)
            _add_called(calls, replaced, ours, used)
            ours[name] = ours.pop(name)


def counts_digits(names: Iterable[str]) -> bool:
    """Whether functions depend on the digits of their type: a wider type gives other values."""
    return not {"ad_nextafter", "ad_nextafterf"}.isdisjoint(names)


def rounds_alike(names: Iterable[str]) -> bool:
    """Whether functions have the same values in vectors and outside: they use none of libmvec."""
    return not any(map(_is_in_libmvec, names))


@lru_cache(1 << 10)
def _is_in_libmvec(name: str) -> bool:
    """Whether a function, or one that it calls, has a vector version in libmvec."""
    vectors = {each + suffix for each in VECTORS for suffix in ("", "f")}
    return not vectors.isdisjoint(_needed([name])[1])


def declared(names: Iterable[str]) -> list[str]:
    """The declarations of functions that are called, in the order that C needs."""
    ours, used = _needed(names)
    return [*_of_library(used), *_texts(ours, used, in_vectors=True)]


def _of_library(used: set[str]) -> Iterator[str]:
    """The declarations of the C library's functions."""
    for name, count in (VECTORS | SCALARS).items():
        for c_type, suffix in (("double", ""), ("float", "f")):
            if name + suffix in used:
                if name in VECTORS:
                    yield "#pragma omp declare simd notinbranch"
                yield f"extern {c_type} {name}{suffix}({', '.join([c_type] * count)});"


def _texts(ours: dict[str, str], used: set[str], *, in_vectors: bool) -> list[str]:
    """The texts of our functions, and declarations that not every header has."""
    lines = [f"extern {head};" for name, head in _POINTING.items() if name in used]
    lines += [special_functions.head(text) for name, text in ours.items() if name not in inlined()]
    for name, text in ours.items():
        if in_vectors and (common := _common(name)) and _ends_early(name):
            found = definitions.find(name)
            assert found is not None
            lines.append(lanes.text(found, *common, otherwise=_INLINE + text))
        else:
            lines += [_INLINE + text] if name in inlined() else special_functions.definition(text)
    return lines


def prelude(names: Iterable[str], data_offset: int) -> str:
    """The declarations at the start of a source: no header, and only functions that are called.

    Arguments are NumPy's array objects, whose first field after the header is the address of the
    data: reading it here is much faster than asking for it in Python.
    """
    lines = [
        "/* written by adjoint: all memory is given by the caller */",
        _NO_PRE,
        f"#define DATA(objects, slot) (*(void **)((char *)(objects)[slot] + {data_offset}))",
        "#define INF_double __builtin_inf()",
        "#define INF_float __builtin_inff()",
        '#define NAN_double __builtin_nan("")',
        '#define NAN_float __builtin_nanf("")',
        "#define HUGE_VAL __builtin_inf()",
    ]
    return "\n".join([*lines, *_COMMON, *declared(names)]) + "\n"


def standalone_prelude(names: Iterable[str]) -> str:
    """The same for a source with C's headers, whose arguments are addresses of data."""
    lines = [
        "#include <math.h>",
        "#include <stddef.h>",
        "#define DATA(objects, slot) ((objects)[slot])",
        "#define INF_double HUGE_VAL",
        "#define INF_float HUGE_VALF",
        "#define NAN_double ((double)NAN)",
        "#define NAN_float NAN",
    ]
    return "\n".join([*lines, *_COMMON, *_texts(*_needed(names), in_vectors=False)]) + "\n"


_COMMON = (
    HALF_TYPES.rstrip(),
    "typedef long long i64;",
    "typedef unsigned long long u64;",
    "#define inf() INF_double",
    "#define nan() NAN_double",
    "#define LEAST (-9223372036854775807LL - 1)",
    "#define SMALLER(a, b) ((a) < (b) ? (a) : (b))",
    "#define LARGER(a, b) ((a) > (b) ? (a) : (b))",
)
