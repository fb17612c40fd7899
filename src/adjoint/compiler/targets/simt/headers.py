"""What stands before a text for many threads, in each language: types, bits, and what is missing.

The text itself uses `FUNCTION`, `INLINE` and `TABLE` before functions and tables, `i64`, `u64` and
`u32` for whole numbers, `pair` and `pairf` for complex numbers, `inf()`, `nan()` and the names of
C's functions for both real types. The third header is that of plain C99: what it makes of a text
can be executed on every machine, and is compared with the C target in the tests.
"""

from __future__ import annotations

from adjoint.core.records import record
from adjoint.expressions.definitions import SCALARS, VECTORS

_PAIRS = "\n".join(
    f"""typedef struct {{ {real} x, y; }} pair{f};
INLINE pair{f} ad_pair{f}({real} x, {real} y) {{
  pair{f} z;
  z.x = x;
  z.y = y;
  return z;
}}
INLINE pair{f} pair_plus{f}(pair{f} a, pair{f} b) {{ return ad_pair{f}(a.x + b.x, a.y + b.y); }}
INLINE pair{f} pair_minus{f}(pair{f} a, pair{f} b) {{ return ad_pair{f}(a.x - b.x, a.y - b.y); }}
INLINE pair{f} pair_negative{f}(pair{f} z) {{ return ad_pair{f}(-z.x, -z.y); }}
INLINE pair{f} pair_times_real{f}(pair{f} z, {real} r) {{ return ad_pair{f}(z.x * r, z.y * r); }}
INLINE pair{f} pair_over_real{f}(pair{f} z, {real} r) {{ return ad_pair{f}(z.x / r, z.y / r); }}
INLINE pair{f} pair_plus_real{f}(pair{f} z, {real} r) {{ return ad_pair{f}(z.x + r, z.y); }}
INLINE pair{f} pair_minus_real{f}(pair{f} z, {real} r) {{ return ad_pair{f}(z.x - r, z.y); }}
INLINE pair{f} real_minus_pair{f}({real} r, pair{f} z) {{ return ad_pair{f}(r - z.x, -z.y); }}
INLINE pair{f} pair_choose{f}(int c, pair{f} a, pair{f} b) {{
  return ad_pair{f}(c ? a.x : b.x, c ? a.y : b.y);
}}
INLINE int pair_equal{f}(pair{f} a, pair{f} b) {{ return (a.x == b.x) & (a.y == b.y); }}
"""
    for real, f in (("double", ""), ("float", "f"))
)

# Bessel functions of whole orders, which OpenCL C lacks: Y upwards from orders 0 and 1, J downwards
# from an order where it is nothing (Miller).
_YN = "FUNCTION double yn(int n, double x) { return ad_upwards(x, n, 3); }"
_JN = """FUNCTION double jn(int n, double x) {
  const double size = fabs(x), sign = x < 0 && n % 2 ? -1 : 1;
  if (!(size >= 1)) return x != x ? x : sign * ad_bessel_series(size, n, 0, -1);
  const int top = n > (int)size ? n : (int)size;
  int start = top + 32 + (int)(8 * cbrt((double)top));
  double above = 0, now = 1e-300, total = 0, found = 0;
  start += start % 2;
  for (int k = start; k > 0; k--) {
    const double below = 2 * k / size * now - above;
    above = now, now = below;
    if (k - 1 == n) found = now;
    if (k % 2 == 1) total += k == 1 ? now : 2 * now;
    if (fabs(now) > 1e100) above *= 1e-100, now *= 1e-100, total *= 1e-100, found *= 1e-100;
  }
  return sign * found / total;
}"""


@record
class Header:
    """A language that the text is compiled as."""

    name: str  # "OpenCL C"
    text: str
    missing: dict[str, tuple[str, tuple[str, ...]]]  # functions: their text, and what that calls


_REALS = "\n".join(f"#define {name}f {name}" for name in VECTORS | SCALARS)

OPENCL = Header(
    "OpenCL C",
    f"""\
#pragma OPENCL FP_CONTRACT OFF
#define FUNCTION static
#define INLINE static inline
#define TABLE __constant double
typedef long i64;
typedef ulong u64;
typedef uint u32;
#define inf() ((double)INFINITY)
#define inff() INFINITY
#define nan() ((double)NAN)
#define nanf() NAN
{_REALS}
INLINE u64 ad_bits(double x) {{ return as_ulong(x); }}
INLINE u32 ad_bitsf(float x) {{ return as_uint(x); }}
INLINE double ad_from_bits(u64 bits) {{ return as_double(bits); }}
INLINE float ad_from_bitsf(u32 bits) {{ return as_float(bits); }}
{_PAIRS}""",
    {"jn": (_JN, ("ad_bessel_series",)), "yn": (_YN, ("ad_upwards",))},
)

CUDA = Header(
    "CUDA C++",
    f"""\
#define FUNCTION static __device__ __noinline__
#define INLINE static __device__ __forceinline__
#define TABLE __device__ const double
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
#define inf() __longlong_as_double(0x7ff0000000000000ll)
#define inff() __int_as_float(0x7f800000)
#define nan() __longlong_as_double(0x7ff8000000000000ll)
#define nanf() __int_as_float(0x7fc00000)
INLINE u64 ad_bits(double x) {{ return (u64)__double_as_longlong(x); }}
INLINE u32 ad_bitsf(float x) {{ return __float_as_uint(x); }}
INLINE double ad_from_bits(u64 bits) {{ return __longlong_as_double((i64)bits); }}
INLINE float ad_from_bitsf(u32 bits) {{ return __uint_as_float(bits); }}
{_PAIRS}""",
    {},
)

C99 = Header(
    "C99",
    f"""\
#include <math.h>
#include <string.h>
#define FUNCTION static
#define INLINE static
#define TABLE static const double
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
#define inf() ((double)INFINITY)
#define inff() INFINITY
#define nan() ((double)NAN)
#define nanf() NAN
extern double jn(int, double), yn(int, double);
INLINE u64 ad_bits(double x) {{ u64 bits; memcpy(&bits, &x, 8); return bits; }}
INLINE u32 ad_bitsf(float x) {{ u32 bits; memcpy(&bits, &x, 4); return bits; }}
INLINE double ad_from_bits(u64 bits) {{ double x; memcpy(&x, &bits, 8); return x; }}
INLINE float ad_from_bitsf(u32 bits) {{ float x; memcpy(&x, &bits, 4); return x; }}
{_PAIRS}""",
    {},
)
