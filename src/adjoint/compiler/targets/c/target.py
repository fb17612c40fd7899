"""The processor of this machine, programmed in C with OpenMP.

Each number stands with what set it: a measurement with its commit (`git show` has the rest), or the
thing of a processor that it counts. "By size" means that it was chosen by that size, and that no
measurement of other values is kept. Change a number with the benchmark suite before and after.
"""

from __future__ import annotations

from adjoint.c_kernels import loading
from adjoint.compiler import routines
from adjoint.compiler.shaping import count_work, store_early
from adjoint.compiler.shaping.bands import make_bands
from adjoint.compiler.shaping.building import build_loops
from adjoint.compiler.shaping.bytes import widen_bytes
from adjoint.compiler.shaping.row_axes import choose_rows, keep_rows, share_rows
from adjoint.compiler.shaping.split_calls import split_off_calls
from adjoint.compiler.shaping.totals import narrow_totals
from adjoint.compiler.shaping.trimming import cut_loops, pad_short, tile
from adjoint.compiler.shaping.unrolling import take_rows_together
from adjoint.compiler.target import (
    Cache,
    Costs,
    Limits,
    Products,
    Sweeping,
    Target,
    Threads,
    Vectors,
)
from adjoint.compiler.targets.c import writing
from adjoint.core.c_types import C_TYPES
from adjoint.expressions.functions import VECTORIZED, rounds_alike

VECTORS = Vectors(
    whole=8,  # by size: doubles in 64 bytes, a vector of AVX-512 or two of AVX2
    widest=16,  # by size: floats in 64 bytes
    short=16,  # with blocks, rows of 5 to 40 elements take half the time (a9b17ae0)
    short_totals=40,  # measured with it
    padded=64,  # by size: beyond eight vectors the remainder is a small part
    heavy=32,  # the last 6 of 14 elements took three turns (11658026)
    tile=16,  # by size: floats in a line of the cache (e7d78c36)
    unrolled=80,  # a mixture of Gaussians: 1.1-1.4 of hand-written C, 1.5-1.8 before (9e63a065)
    piece=1024,  # by size: 8 KB of doubles, so that a few such arrays fit the first level
    long=512,  # Black–Scholes in float32: 14 % less time by splitting (6020d9d8)
    beside_calls=32,  # measured with it
    poor=12,  # short symbolic sizes are as fast as closed ones (ca305c20)
    together=8,  # sums over 3 to 20 columns in 0.3-0.45 of the time, 4 rows in 0.4-0.5
    numbered=8,  # rows of 3 to 8 elements in 0.3-0.8 of the time; 9 to 20 gain a fifth
    numbered_totals=20,  # sums over 3 to 20 columns in 0.6 of the time
)

CACHE = Cache(
    block=1 << 15,  # by size: 32 KB, the first level
    shared=1 << 16,  # bundle adjustment takes half the time (5f363a77)
    row=1 << 16,  # by size: a row and its neighbours in the second level
    near=1 << 14,  # by size: half of the first level (831f50dc)
    lanes=64,  # by size: a vector of bytes, eight of doubles
    adjacent=1024,  # by size: 8 KB of accumulators, a quarter of the first level
    shared_reads=1 << 12,  # by size: 32 KB of doubles; smaller values are near anyway
    pooled=1 << 17,  # by size: from here on malloc asks the system for memory, page by page
    kept_steps=1 << 24,  # LSTM takes 3/4, GRU 0.83 of the time (d049ff1a)
)

THREADS = Threads(
    most=16,  # by size: what scratch memory of each thread may cost
    parts=16,  # by size: what accumulators of each part may cost; two threads share them evenly
    part=1 << 18,  # by size: some 5 µs, many times what it takes to claim a part
    joined=32,  # by size: joining the accumulators of all parts takes a few per cent of the time
    rows=32,  # by size: two rows for each thread (580026a7)
    partial=1 << 15,  # by size: 256 KB of doubles, the second level of one core
    work=1 << 21,  # to wake threads takes about 25 µs, a tenth of these additions
    awake=1 << 18,  # smaller steps use threads that a larger one has woken (580026a7)
    short=1 << 18,  # by size: some 30 µs, less than handing over the interpreter's lock costs
    alignment=64,  # by size: bytes of a line of the cache, and of the widest vector
)

SWEEPING = Sweeping(
    inner=128,  # nets of 64 to 256 units gain a fifth (07320771)
    worth=1 << 20,  # by size: the second level of a core (924626fb)
    block=3 << 18,  # by size: the second level less what a product needs (924626fb)
    rows=(16, 256),  # a mixture of Gaussians: 1.1-1.4 of hand-written C (9e63a065)
    summed=64,  # products over fewer rows were slower (0e883cf6)
    reduced=3,  # without reductions inside rows sweeps were slower (2d19319e)
    gathered=16,  # with more to gather sweeps were slower (2d19319e)
    sums=1 << 17,  # by size: 1 MB of doubles for each thread (924626fb)
)

PRODUCTS = Products(
    small=1 << 10,  # a call of a routine takes as long (f7b00559)
    tiny=128,  # a loop only where faster: the scan of an LSTM takes half the time (148a7095)
    thin=48,  # measured with it
    results=64,  # measured with it
)

COSTS = Costs(
    cheap=6,  # by size: additions in the time of a store and a load
    scores=1 << 13,  # long sequences keep no scores between forward and backward (a8fab1d4)
    places=1 << 12,  # by size: 32 KB of constants in the program
    known=128,  # short symbolic sizes are as fast as closed ones (ca305c20)
)

# gcc's time grows faster than the length of a function. With these it is linear on the programs of
# `python -m benchmarks.compile_time`: chains of 5,000 operators, 250 inputs, 1,000 small products.
LIMITS = Limits(
    nodes=600,  # 805f38a8
    statements=250,  # 805f38a8
    function=10,  # by size: statements of an inlined exponential
    combining=24,  # 805f38a8
    reads=64,  # the backward of a two-layer LSTM reads 55 (805f38a8)
    tried=64,  # planning is linear in the operators (2b60cecd)
    deep=64,  # by size: frames of the walks over an expression
    parts=32,  # by size: copies of a loop's body
    pieces=16,  # longer joins are copied: unrolled nets have hundreds of pieces (44c9f65e)
    numbered=2,  # gcc takes 10-15 ms for each version of a nest
    steps=100,  # the steps of an unrolled loop share functions (831f50dc)
    small_nest=40,  # measured with it
    lines=250,  # as for statements
    inlined=8,  # as for statements
    batch=loading.MOST,  # the same for all kernels in C
    stack=1 << 14,  # by size: 128 KB of doubles, since threads may have small stacks
)

CPU = Target(
    name="c",
    types=C_TYPES,
    vectors=VECTORS,
    cache=CACHE,
    threads=THREADS,
    sweeping=SWEEPING,
    products=PRODUCTS,
    costs=COSTS,
    limits=LIMITS,
    vectorized=VECTORIZED,
    rounds_alike=rounds_alike,
    passes=(
        make_bands, choose_rows, keep_rows, share_rows, build_loops, tile, cut_loops, pad_short,
        narrow_totals, widen_bytes, split_off_calls, take_rows_together, store_early, count_work,
    ),
    routines=routines.routine,
    write=writing.write,
    build=writing.built,
)  # fmt: skip
