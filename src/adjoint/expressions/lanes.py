"""Vector versions of functions with rare arguments, for gcc.

gcc does not vectorise a loop around a function that ends early, such as `ad_fmod@`, whose rare
arguments need the C library. But it calls a vector version of a function, as it calls libmvec's
exp(), by a name that the vector ABI of x86-64 gives. The version here computes all elements of a
vector by the text for common ones; if an argument is rare, it computes one element after another.
Both give the same bits. Other compilers inline the function itself.
"""

from __future__ import annotations

from dataclasses import replace

from adjoint.expressions.c_text import function_text
from adjoint.expressions.trees import ElementFunction

# an instruction set's letter in names of the vector ABI, its bytes, whether gcc compiles for it
_SETS = (
    ("b", 16, "defined(__SSE2__)"),
    ("c", 32, "defined(__AVX__) && !defined(__AVX2__)"),
    ("d", 32, "defined(__AVX2__)"),
    ("e", 64, "defined(__AVX512F__)"),
)
_GUARD = "#if defined(__x86_64__) && defined(__ELF__) && defined(__GNUC__) && !defined(__clang__)"
_INLINE = "static inline __attribute__((always_inline)) "


def text(function: ElementFunction, common: str, is_rare: str, *, otherwise: str) -> str:
    """The C text of a function with vector versions; `otherwise` is it without."""
    name, count = function.name, len(function.parameters)
    real = "float" if function.dtype.itemsize == 4 else "double"
    each = f"{name}_each"
    given = ", ".join(f"{real} {p.name}" for p in function.parameters)
    names = ", ".join(p.name for p in function.parameters)
    lines = [
        _GUARD,
        _INLINE + function_text(replace(function, name=each)),
        f"extern {real} {name}({', '.join([real] * count)})"
        ' __attribute__((simd("notinbranch"), const, nothrow));',
        f'static __attribute__((used, noinline)) {real} {name}_one({given}) __asm__("{name}");',
        f"static {real} {name}_one({given}) {{ return {each}({names}); }}",
    ]
    for letter, size, compiled in _SETS:
        found = _version(function, (common, is_rare, each), real, letter, size)
        lines += [f"#if {compiled}", found, "#endif"]
    return "\n".join([*lines, "#else", otherwise, "#endif"])


def _version(
    function: ElementFunction, calls: tuple[str, str, str], real: str, letter: str, size: int
) -> str:
    """The version for one instruction set, whose vectors have `size` bytes."""
    common, is_rare, each = calls
    name, count = function.name, size // function.dtype.itemsize
    vector, symbol = f"{name}_vector_{letter}", f"{name}_lanes_{letter}"
    names = [p.name for p in function.parameters]
    given = ", ".join(f"{vector} {n}" for n in names)
    element = ", ".join(f"{n}[k]" for n in names)
    number = "int" if function.dtype.itemsize == 4 else "long long"
    mangled = f"_ZGV{letter}N{count}{'v' * len(names)}_{name}"
    return f"""\
typedef {real} {vector} __attribute__((vector_size({size})));
static __attribute__((noinline, cold)) {vector} {symbol}_rare({given}) {{
  {vector} made;
  for (int k = 0; k < {count}; k++) made[k] = {each}({element});
  return made;
}}
static __attribute__((used, noinline)) {vector} {symbol}({given}) __asm__("{mangled}");
static {vector} {symbol}({given}) {{
  {vector} made;
  {number} rare = 0;
  #pragma omp simd reduction(| : rare)
  for (int k = 0; k < {count}; k++) {{
    made[k] = {common}({element});
    rare |= {is_rare}({element}) != 0;
  }}
  return rare ? {symbol}_rare({", ".join(names)}) : made;
}}"""
