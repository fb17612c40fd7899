"""Pickles read without running code, and written without a pickler.

A pickle is a program for a small stack machine. `Reader` runs such programs with a table of what
names may mean: a value, or a `Function` of ours that may be called. Any other name is refused, and
so is every instruction that reaches beyond the table. `Writer` writes the few instructions that
plain values need; names are written as they are, and nothing is imported to check them.
"""

from __future__ import annotations

import collections
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from adjoint.core.errors import AdjointError
from adjoint.serialization.keys import checked_key
from adjoint.serialization.objects import Others, PickleError
from adjoint.serialization.plain import Function, built
from adjoint.serialization.refusals import brief, brief_error
from adjoint.serialization.storages import Budget

PROTOCOL = b"\x80\x02"


# ---- reading ------------------------------------------------------------------------------------


class Reader:
    """Runs one pickle after the other in a text of bytes."""

    def __init__(
        self,
        text: bytes,
        names: Mapping[str, Any],
        persistent: Callable[[Any], Any],
        budget: Budget,
        encoding: str = "utf-8",
        others: Others | None = None,
    ) -> None:
        self.text = text
        self.names = names  # "torch.Size" -> a value, or a Function
        self.others = others or Others({})
        self.persistent = persistent  # what stands outside the pickle: storages
        self.budget = budget
        self.encoding = encoding
        self.place = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Run one pickle, and return its value."""
        self.stack, self.marks, self.memo = [], [], {}
        try:
            while True:
                code = self.text[self.place]
                self.place += 1
                if code == _STOP:
                    (value,) = self.stack
                    return value
                step = _STEPS.get(code)
                if step is None:
                    raise PickleError(f"a pickle has the instruction {bytes([code])!r}, {_WHY}")
                step(self)
        except AdjointError:
            raise
        except Exception as error:
            raise PickleError(
                f"the pickle is damaged near byte {self.place}: {brief_error(error)}"
            ) from error

    # -- arguments of instructions ---------------------------------------------------------------

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        piece = self.text[self.place : self.place + count]
        if len(piece) != count:
            raise PickleError("the pickle is truncated")
        self.place += count
        return piece

    def number(self, form: struct.Struct) -> Any:
        """Return the number that follows."""
        return form.unpack(self.take(form.size))[0]

    def line(self) -> str:
        """Return the text up to the end of the line."""
        end = self.text.index(b"\n", self.place)
        line = self.text[self.place : end].decode()
        self.place = end + 1
        return line

    def above_mark(self) -> list[Any]:
        """Remove what was pushed since the last mark, and return it."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    # -- what instructions do --------------------------------------------------------------------

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def name(self, name: str) -> None:
        """Push what a name means."""
        self.push(self.names[name] if name in self.names else self.others.named(name))

    def call(self, *, new: bool = False) -> None:
        """Call a function of the table with a tuple of arguments; `new` makes an object."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(arguments) is not tuple:
            raise PickleError(f"a pickle calls a function with {brief(arguments)}")
        if type(function) is Function:
            self.push(function.call(*arguments))
        else:
            self.push(self.others.called(function, arguments, new=new))

    def call_with_words(self) -> None:
        """Make an object of a class with arguments by name, of which there are none."""
        if self.stack.pop() != {}:
            raise PickleError("a pickle makes an object with arguments by name")
        self.call(new=True)

    def build(self) -> None:
        """Give an object its state: an OrderedDict has that of a state dict."""
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is collections.OrderedDict and type(state) is dict:
            if "_metadata" in state:
                target._metadata = state["_metadata"]  # type: ignore[attr-defined]
        elif not built(target, state, self.budget) and not self.others.built(target, state):
            raise PickleError(f"a pickle sets the state of {brief(target)}, {_WHY}")

    def key(self, value: Any) -> Any:
        """A key of a dict or an item of a set, checked."""
        return self.others.checked(checked_key(value))

    def set_items(self, items: list[Any]) -> None:
        """Put pairs of keys and values into the dict on the stack."""
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise PickleError(f"a pickle puts items into {brief(target)}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[self.key(key)] = value

    def append(self, items: Iterable[Any]) -> None:
        """Append to the list on the stack."""
        target = self.stack[-1]
        if type(target) not in (list, collections.deque):
            raise PickleError(f"a pickle appends to {brief(target)}")
        target.extend(items)

    def add(self, items: Iterable[Any]) -> None:
        """Add to the set on the stack."""
        target = self.stack[-1]
        if type(target) is not set:
            raise PickleError(f"a pickle adds to {brief(target)}")
        target.update([self.key(item) for item in items])

    def text_of(self, count: int) -> str:
        """Return a text of that many bytes."""
        return self.take(count).decode("utf-8", "surrogatepass")

    def old_text(self, count: int) -> Any:
        """Return a text that Python 2 wrote."""
        raw = self.take(count)
        return raw if self.encoding == "bytes" else raw.decode(self.encoding)

    def remember(self, number: int) -> None:
        """Give the top of the stack a number."""
        self.memo[number] = self.stack[-1]

    def tuple_of(self, count: int) -> None:
        """Replace so many values by their tuple."""
        if count > len(self.stack):
            raise PickleError("a pickle takes more values than there are")
        items = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.push(items)

    def of_items(self, kind: Callable[[list[Any]], Any]) -> None:
        """Push what is made of the values since the mark."""
        self.push(kind(self.above_mark()))


_WHY = "which plain values and tensors do not need"
_STOP = ord(".")
_BYTE, _SHORT, _INT = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<i")
_LENGTH, _LENGTH8, _FLOAT = struct.Struct("<I"), struct.Struct("<Q"), struct.Struct(">d")


def _whole(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _dict_of(reader: Reader) -> None:
    items = reader.above_mark()
    reader.push({})
    reader.set_items(items)


# The instructions, by their byte; texts of protocol 0 and all that makes objects are left out.
_STEPS: dict[int, Callable[[Reader], Any]] = {
    code[0]: step
    for code, step in {
        b"\x80": lambda r: r.take(1),  # PROTO
        b"\x95": lambda r: r.take(8),  # FRAME
        b"(": lambda r: r.marks.append(len(r.stack)),
        b"0": lambda r: r.stack.pop(),
        b"1": lambda r: r.above_mark(),
        b"2": lambda r: r.push(r.stack[-1]),
        b"N": lambda r: r.push(None),
        b"\x88": lambda r: r.push(True),
        b"\x89": lambda r: r.push(False),
        b"K": lambda r: r.push(r.number(_BYTE)),
        b"M": lambda r: r.push(r.number(_SHORT)),
        b"J": lambda r: r.push(r.number(_INT)),
        b"\x8a": lambda r: r.push(_whole(r.take(r.number(_BYTE)))),
        b"\x8b": lambda r: r.push(_whole(r.take(r.number(_LENGTH)))),
        b"G": lambda r: r.push(r.number(_FLOAT)),
        b"X": lambda r: r.push(r.text_of(r.number(_LENGTH))),
        b"\x8c": lambda r: r.push(r.text_of(r.number(_BYTE))),
        b"\x8d": lambda r: r.push(r.text_of(r.number(_LENGTH8))),
        b"U": lambda r: r.push(r.old_text(r.number(_BYTE))),
        b"T": lambda r: r.push(r.old_text(r.number(_LENGTH))),
        b"B": lambda r: r.push(r.take(r.number(_LENGTH))),
        b"C": lambda r: r.push(r.take(r.number(_BYTE))),
        b"\x8e": lambda r: r.push(r.take(r.number(_LENGTH8))),
        b"\x96": lambda r: r.push(bytearray(r.take(r.number(_LENGTH8)))),
        b"}": lambda r: r.push({}),
        b"]": lambda r: r.push([]),
        b")": lambda r: r.push(()),
        b"\x8f": lambda r: r.push(set()),
        b"\x85": lambda r: r.tuple_of(1),
        b"\x86": lambda r: r.tuple_of(2),
        b"\x87": lambda r: r.tuple_of(3),
        b"t": lambda r: r.of_items(tuple),
        b"l": lambda r: r.of_items(list),
        b"\x91": lambda r: r.of_items(lambda items: frozenset([r.key(item) for item in items])),
        b"d": _dict_of,
        b"a": lambda r: r.append([r.stack.pop()]),
        b"e": lambda r: r.append(r.above_mark()),
        b"s": lambda r: r.set_items([r.stack.pop(-2), r.stack.pop()]),
        b"u": lambda r: r.set_items(r.above_mark()),
        b"\x90": lambda r: r.add(r.above_mark()),
        b"h": lambda r: r.push(r.memo[r.number(_BYTE)]),
        b"j": lambda r: r.push(r.memo[r.number(_LENGTH)]),
        b"q": lambda r: r.remember(r.number(_BYTE)),
        b"r": lambda r: r.remember(r.number(_LENGTH)),
        b"\x94": lambda r: r.remember(len(r.memo)),
        b"c": lambda r: r.name(f"{r.line()}.{r.line()}"),
        b"\x93": lambda r: r.name(".".join((r.stack.pop(-2), r.stack.pop()))),
        b"R": lambda r: r.call(),
        b"\x81": lambda r: r.call(new=True),  # NEWOBJ: functions of the table are classes, too
        b"\x92": lambda r: r.call_with_words(),
        b"b": lambda r: r.build(),
        b"Q": lambda r: r.push(r.persistent(r.stack.pop())),
    }.items()
}


# ---- writing ------------------------------------------------------------------------------------


class Writer:
    """Collects the instructions of a pickle of protocol 2."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = [PROTOCOL]
        self._memo: dict[Any, int] = {}

    def finished(self) -> bytes:
        """Return the pickle."""
        return b"".join((*self.pieces, b"."))

    def put(self, *pieces: bytes) -> None:
        """Write instructions as they are."""
        self.pieces += pieces

    def remember(self, key: Any) -> None:
        """Give the value on the stack a number, for `recall(key)`."""
        self._memo[key] = number = len(self._memo)
        self.put(b"r", _LENGTH.pack(number))

    def recall(self, key: Any) -> bool:
        """Write the value that `key` was remembered for, if there is one."""
        number = self._memo.get(key)
        if number is not None:
            self.put(b"j", _LENGTH.pack(number))
        return number is not None

    def name(self, module: str, name: str) -> None:
        """Write a name."""
        key = ("name", module, name)
        if not self.recall(key):
            self.put(b"c", f"{module}\n{name}\n".encode())
            self.remember(key)

    def text(self, value: str) -> None:
        """Write a text."""
        if not self.recall(value):
            encoded = value.encode("utf-8", "surrogatepass")
            self.put(b"X", _LENGTH.pack(len(encoded)), encoded)
            self.remember(value)

    def integer(self, value: int) -> None:
        """Write a whole number."""
        if -(2**31) <= value < 2**31:
            self.put(b"J", _INT.pack(value))
            return
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        short = len(data) < 256
        self.put(*((b"\x8a", _BYTE.pack(len(data))) if short else (b"\x8b", _INT.pack(len(data)))))
        self.put(data)

    def number(self, value: float) -> None:
        """Write a floating point number."""
        self.put(b"G", _FLOAT.pack(value))

    def constant(self, value: bool | None) -> None:
        """Write True, False or None."""
        self.put({None: b"N", True: b"\x88", False: b"\x89"}[value])
