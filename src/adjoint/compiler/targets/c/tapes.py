"""The tapes of `while_loop`, in C: they keep the carries of all turns, or of some if memory is
short.

A tape keeps the carry of every turn until it has as many as its bound allows. Then it drops every
second carry and keeps every second turn from there on, later every fourth, and so on: Note [Thinned
tapes].
"""

from __future__ import annotations

import ctypes
import os

from adjoint.core.errors import ArgumentError

# Note [Thinned tapes]
# The number of turns of a loop is not known beforehand. So turn t is kept if t is a multiple of
# 2^shift, and the shift grows by one whenever the tape is full. A scan that goes back over the
# turns recomputes the dropped ones from the last turn kept before them. On the way it keeps a few
# of these, behind the rows of the tape, at the distances that need the fewest recomputations
# (`further`): with 64 of them, turns of a piece of 2,000 are recomputed at most twice more, of a
# piece of 48,000 three times. A scan that goes in the direction of the loop computes one turn after
# the other. The values are those of the loop to the last bit, since the same code computes them.

BOUND = 1 << 28  # bytes of all carries kept for one loop
LEAST = 16  # carries kept at least, however large
AGAIN = 64  # recomputed turns that a scan keeps


class CarryTape(ctypes.Structure):
    """The memory of a value with one row for each turn of a loop. It grows as the loop runs, and is
    kept for the next call.
    """

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("room", ctypes.c_long),  # bytes
        ("count", ctypes.c_long),  # turns
        ("shift", ctypes.c_long),  # turns that are multiples of 2^shift are kept
        ("bound", ctypes.c_long),  # bytes for the carries of its loop together
    )


def bound() -> int:
    """The bytes for the carries of one loop: $ADJOINT_TAPE, or 256 megabytes."""
    text = os.environ.get("ADJOINT_TAPE", "")
    if text and not text.isdigit():
        raise ArgumentError(f"$ADJOINT_TAPE must be a number of bytes, got {text!r}")
    return int(text) if text else BOUND


TAPE_DECLARED = f"""typedef struct {{ char *data; long room, count, shift, bound; }} Tape;
extern void *realloc(void *, unsigned long);
/* See to it that there is memory for some turns: for twice as many, if that is not too many. */
static int has_no_room(Tape *tape, long turns, long most, long size) {{
  if (turns * size <= tape->room) return 0;
  const long room = LARGER(LARGER(SMALLER(2 * turns, most), turns) * size, 4096);
  char *const data = realloc(tape->data, room);
  if (!data) return 1;
  tape->data = data;
  tape->room = room;
  return 0;
}}
/* How many carries of some bytes a loop may keep. */
static long most_kept(const Tape *tape, long size) {{
  return LARGER(tape->bound / LARGER(size, 1), {LEAST});
}}
/* Drop every second turn. */
static void thin(Tape *tape, long turns, long size) {{
  for (long k = 1; 2 * k < turns; k++)
    __builtin_memcpy(tape->data + k * size, tape->data + 2 * k * size, size);
}}
/* How far to go before a turn is kept, so that `rows` are gone back over with room for so many and
   the fewest are computed again: C(room + 1 + r, r) rows need each turn at most r times more
   (Griewank and Walther, Algorithm 799: revolve). */
static long further(long rows, long room) {{
  if (room <= 0) return rows;
  long most = 1, times = 0;
  while (most < rows) {{ times++; most = most * (room + 1 + times) / times; }}
  return LARGER(rows - most * (room + 1) / (room + 1 + times), 1);
}}
"""
