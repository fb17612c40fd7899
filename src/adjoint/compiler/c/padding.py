"""Short loops in whole vectors.

A loop over 10 elements is one vector of 8 and two elements alone, and an element alone calls the
slow scalar
function. Here the operands are copied to local arrays of 16, all of which are computed, and only
the 10 are written back.
"""

from __future__ import annotations

import re

from adjoint.compiler.c.expressions import VECTORIZED

_LANES = 8
_LONGEST = 64
_READ = re.compile(r"const (\w[\w ]*) (v\d+) = (p\d+\[.*\]);")
_STORE = re.compile(r"(p\d+\[.*\]) = (v\d+);")
_VALUE = re.compile(r"const (\w[\w ]*) (v\d+) = .*;")
_SUM = re.compile(r"(acc\d+) \+= (v\d+);")
_CALL = re.compile(rf"\b(?:{'|'.join(VECTORIZED)})f?\(")


def padded(size: int, body: list[str]) -> list[str] | None:
    """The loop over `size` elements in whole vectors; None where that does not pay or is not
    possible.
    """
    if not 1 < size <= _LONGEST or size % _LANES == 0 or not any(map(_CALL.search, body)):
        return None
    room = -(-size // _LANES) * _LANES
    before: list[str] = []
    inside: list[str] = []
    after: list[str] = []
    types: dict[str, str] = {}
    for number, line in enumerate(body):
        local = f"w{number}"
        if read := _READ.fullmatch(line):
            c_type, name, place = read.groups()
            types[name] = c_type
            before += [_array(c_type, local, room), _each(0, size, f"{local}[i0] = {place};")]
            before.append(_each(size, room, f"{local}[i0] = {local}[0];"))
            inside.append(f"const {c_type} {name} = {local}[i0];")
        elif value := _VALUE.fullmatch(line):
            types[value[2]] = value[1]
            inside.append(line)
        elif store := _STORE.fullmatch(line):
            before.append(_array(types[store[2]], local, room))
            inside.append(f"{local}[i0] = {store[2]};")
            after.append(_each(0, size, f"{store[1]} = {local}[i0];"))
        elif total := _SUM.fullmatch(line):
            before.append(_array(types[total[2]], local, room))
            inside.append(f"{local}[i0] = {total[2]};")
            after.append(_each(0, size, f"{total[1]} += {local}[i0];"))
        else:
            return None
    loop = [f"for (long i0 = 0; i0 < {room}; i0++) {{", *(f"  {line}" for line in inside), "}"]
    return [*before, "#pragma omp simd", *loop, *after]


def _array(c_type: str, name: str, size: int) -> str:
    return f"{c_type} {name}[{size}];"


def _each(first: int, last: int, line: str) -> str:
    return f"for (long i0 = {first}; i0 < {last}; i0++) {line}"
