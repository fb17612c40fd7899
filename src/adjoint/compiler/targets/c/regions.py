"""Loops over time, branches and tapes of host programs as C text; `steps` prints their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.compiler.host import (
    Branch,
    Close,
    Enclosed,
    Grow,
    Hold,
    HostOperand,
    Loop,
    Move,
    Open,
    Pop,
    Push,
    Rewind,
    Statement,
    Tape,
    WhileLoop,
)
from adjoint.compiler.targets.c.addresses import address, number, pointer, tape
from adjoint.compiler.targets.c.tapes import AGAIN

Steps = Callable[[Sequence[Statement]], str]


def region(given: Enclosed, steps: Steps) -> str:
    return f"{{\n{steps(given.body)}}}\n"


def hold(given: Hold, steps: Steps) -> str:
    return f"char *{given.held.name} = {address(given.address)};\n"


def move(given: Move, steps: Steps) -> str:
    """All new addresses are computed before the first of them changes."""
    lines = [f"char *const n{held.name} = {address(place)};\n" for held, place in given.moves]
    return "".join([*lines, *(f"{held.name} = n{held.name};\n" for held, _ in given.moves)])


def loop(given: Loop, steps: Steps) -> str:
    s, count = given.step.name, number(given.count)
    turn = f"{count} - 1 - {s}" if given.backwards else s
    head = f"for (long {s} = 0; {s} < {count}; {s}++) {{\nconst long {given.turn.name} = {turn};\n"
    return f"{head}{steps(given.body)}}}\n"


def _truth(condition: HostOperand | bool) -> str:
    return f"{pointer(condition)}[0]" if isinstance(condition, HostOperand) else str(int(condition))


def while_loop(given: WhileLoop, steps: Steps) -> str:
    """The number of turns is still known after the loop."""
    head = f"long {given.step.name} = 0;\nfor (;; {given.step.name}++) {{\n"
    ends = f"if (!{_truth(given.condition)}) break;\n"
    return f"{head}{steps(given.test)}{ends}{steps(given.body)}}}\n"


def branch(given: Branch, steps: Steps) -> str:
    true, false = steps(given.true), steps(given.false)
    return f"if ({_truth(given.condition)}) {{\n{true}}} else {{\n{false}}}\n"


# -- tapes ----------------------------------------------------------------------------------------


def _most_kept(tapes: Sequence[Tape]) -> str:
    """C text of the number of carries that a loop may keep."""
    return f"most_kept({tape(tapes[0])}, {sum(t.row for t in tapes)})"


def _room(given: Tape, turns: str, most: str) -> str:
    """Ensure that a tape has room for some turns; if there is no memory the call fails."""
    row = number(given.row)
    return f"if (has_no_room({tape(given)}, {turns}, {most}, {row})) {{ *status = 1; return; }}\n"


def _saved(tapes: Sequence[Tape], carry: Sequence[Any], row: str) -> str:
    """C text that copies a carry to a row of its tapes; an empty carry has no memory."""
    pairs = ((each, held) for each, held in zip(tapes, carry, strict=True) if each.row)
    return "".join(
        f"__builtin_memcpy({address(each)} + {row} * {each.row}, {held.name}, {each.row});\n"
        for each, held in pairs
    )


def grow(given: Grow, steps: Steps) -> str:
    count = number(given.length)
    return f"({tape(given.tape)})->count = {count};\n{_room(given.tape, count, count)}"


def open_tapes(given: Open, steps: Steps) -> str:
    room = _most_kept(given.tapes) if given.thins else "0x7fffffffffffffff"
    return f"const long most{given.name} = {room};\nlong shift{given.name} = 0;\n"


def push(given: Push, steps: Steps) -> str:
    """Copy the carry of a turn to its tape if it is one to keep: Note [Thinned tapes]."""
    turn, shift, most = given.turn.name, f"shift{given.name}", f"most{given.name}"
    is_kept = f"!({turn} & ((1L << {shift}) - 1))"
    lines = [f"if ({is_kept} && {turn} >> {shift} == {most}) {{\n"]
    lines += [f"thin({tape(each)}, {most}, {each.row});\n" for each in given.tapes]
    lines.append(f"{shift}++;\n}}\nif ({is_kept}) {{\n")
    lines += [_room(each, f"({turn} >> {shift}) + 1", most) for each in given.tapes]
    return "".join([*lines, _saved(given.tapes, given.carry, f"({turn} >> {shift})"), "}\n"])


def close_tapes(given: Close, steps: Steps) -> str:
    turns, shift = given.turns.name, f"shift{given.name}"
    texts = map(tape, given.tapes)
    return "".join([f"({t})->count = {turns}; ({t})->shift = {shift};\n" for t in texts])


def rewind(given: Rewind, steps: Steps) -> str:
    shift, first, room, used = (f"{w}{given.name}" for w in ("shift", "first", "room", "used"))
    count = f"({tape(given.tapes[0])})->count"
    rows = f"{first} + {room}"
    return "".join([
        f"const long {shift} = ({tape(given.tapes[0])})->shift;\n",
        f"const long {first} = (({count} - 1) >> {shift}) + 1;\n",
        f"const long {room} = SMALLER({_most_kept(given.tapes)}, {AGAIN});\n",
        f"long {used} = 0, held{given.name}[{AGAIN}];\nif ({shift}) {{\n",
        *(_room(each, rows, rows) for each in given.tapes),
        "}\n",
    ])  # fmt: skip


def pop(given: Pop, steps: Steps) -> str:
    return _back_to(given, steps) if given.backwards else _on_to(given, steps)


def _kept(given: Pop, slot: str) -> str:
    """C text that points to a kept carry."""
    pairs = zip(given.tapes, given.carry, strict=True)
    return "".join(f"{held.name} = {address(t)} + {slot} * {t.row};\n" for t, held in pairs)


def _back_to(given: Pop, steps: Steps) -> str:
    """C text that finds the carry of a turn; the carry of the turn after it was found before."""
    shift, first, room, used, held, slot, next_ = (
        f"{w}{given.name}" for w in ("shift", "first", "room", "used", "held", "slot", "next")
    )
    t, s = given.turn.name, given.step.name
    return "".join([
        f"while ({used} && {held}[{used} - 1] > {t}) {used}--;\n",
        f"long {s} = {t} >> {shift} << {shift}, {slot} = {t} >> {shift};\n",
        f"if ({used} && {held}[{used} - 1] > {s}) ",
        f"{{ {s} = {held}[{used} - 1]; {slot} = {first} + {used} - 1; }}\n",
        _kept(given, slot),
        f"for (long {next_} = {s} + further({t} - {s} + 1, {room} - {used}); {s} < {t};) {{\n",
        steps(given.body),
        f"if (++{s} == {next_} && {s} < {t}) {{\n",
        _saved(given.tapes, given.carry, f"({first} + {used})"),
        f"{held}[{used}++] = {s};\n",
        f"{next_} = {s} + further({t} - {s} + 1, {room} - {used});\n}}\n}}\n",
    ])  # fmt: skip


def _on_to(given: Pop, steps: Steps) -> str:
    """C text that finds the carry of a turn; the carry of the turn before it was found before."""
    t, shift = given.turn.name, f"shift{given.name}"
    return (
        f"if (!({t} & ((1L << {shift}) - 1))) {{\n{_kept(given, f'({t} >> {shift})')}}} else {{\n"
        f"const long {given.step.name} = {t} - 1;\n{steps(given.body)}}}\n"
    )


PRINTERS: dict[type, Callable[[Any, Steps], str]] = {
    Enclosed: region,
    Hold: hold,
    Move: move,
    Loop: loop,
    WhileLoop: while_loop,
    Branch: branch,
    Grow: grow,
    Open: open_tapes,
    Push: push,
    Close: close_tapes,
    Rewind: rewind,
    Pop: pop,
}
