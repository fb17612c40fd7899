"""Zip archives whose members are stored as they are, written and read piece by piece.

Only what a file of tensors needs, so that nothing else has to be trusted: no compression (a small
file cannot become a large one), no encryption, no member inside or over another, no name twice.
Members start at multiples of 64 bytes, so that arrays can be used where they lie.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from adjoint.core.errors import FileError
from adjoint.core.records import record
from adjoint.serialization.sources import Array, Source

MAGIC = b"PK\x03\x04"
ALIGNMENT = 64

_LOCAL = struct.Struct("<4s5H3L2H")  # magic, version, flags, method, time, day, crc, sizes, lengths
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_MANY, _LARGE = 0xFFFF, 0xFFFFFFFF  # "see the fields of 64 bits"
_UTF8, _ENCRYPTED = 0x800, 0x1
_DAY = 33  # 1980-01-01: equal contents give equal files


@record
class Member:
    """One file of an archive."""

    name: str  # "arrays/0.npy"
    header: int  # where its header starts in the archive
    start: int  # where its bytes start
    size: int
    crc: int  # 0 where the writer did not compute it
    is_plain: bool  # whether its bytes are stored as they are


# ---- reading ------------------------------------------------------------------------------------


def members(source: Source) -> dict[str, Member]:
    """Return the members of an archive by name, after checks of all that its directory says."""
    try:
        found = _entries(source)
    except (struct.error, UnicodeDecodeError) as error:
        raise damaged(source, f"its directory cannot be read ({error})") from error
    end = 0
    for member in sorted(found.values(), key=lambda m: m.header):
        if member.header < end:
            raise damaged(source, f"{member.name!r} lies inside another member")
        end = member.start + member.size
    return found


def damaged(source: Source, why: str) -> FileError:
    """The error for an archive that is not whole."""
    return FileError(f"{source.name}: the archive is damaged: {why}")


def _entries(source: Source) -> dict[str, Member]:
    start, size, count = _directory(source)
    directory, found, place = source.read(start, size), {}, 0
    for _ in range(count):
        fields = _CENTRAL.unpack_from(directory, place)
        name_at = place + _CENTRAL.size
        extra_at = name_at + fields[10]
        place = extra_at + fields[11] + fields[12]
        name = directory[name_at:extra_at].decode()
        if fields[0] != b"PK\x01\x02" or place > size:
            raise damaged(source, "an entry of its directory is broken")
        if name in found:
            raise damaged(source, f"it has two members {name!r}")
        extra = directory[extra_at : extra_at + fields[11]]
        found[name] = _member(source, name, fields, extra, start)
    if place != size:
        raise damaged(source, "its directory is longer than it says")
    return found


def _directory(source: Source) -> tuple[int, int, int]:
    """Return start, size and number of entries of the central directory."""
    tail = min(source.size, _END.size + 0xFFFF)
    text = source.read(source.size - tail, tail)
    at = text.rfind(b"PK\x05\x06")
    if at < 0 or at + _END.size > len(text):
        raise damaged(source, "its directory is missing; was it written to the end?")
    _, _, _, _, count, size, start, comment = _END.unpack_from(text, at)
    if at + _END.size + comment != len(text):
        raise damaged(source, "something stands behind its end")
    if _MANY in (count,) or _LARGE in (size, start):
        locator = source.size - tail + at - _LOCATOR.size
        magic, _, place, _ = _LOCATOR.unpack(source.read(locator, _LOCATOR.size))
        end = _END64.unpack(source.read(place, _END64.size))
        if magic != b"PK\x06\x07" or end[0] != b"PK\x06\x06":
            raise damaged(source, "its large directory is missing")
        count, size, start = end[7:]
    source.check(start, size)
    if count * _CENTRAL.size > size:
        raise damaged(source, f"its directory has no room for {count} entries")
    return start, size, count


def _member(
    source: Source, name: str, fields: tuple[Any, ...], extra: bytes, directory: int
) -> Member:
    flags, method, crc, packed, size, header = (fields[n] for n in (3, 4, 7, 8, 9, 16))
    is_plain = not flags & _ENCRYPTED and method == 0
    wide = [value == _LARGE for value in (size, packed, header)]
    if any(wide):
        numbers = iter(struct.unpack(f"<{sum(wide)}Q", _field(extra, 1)[: 8 * sum(wide)]))
        given = (size, packed, header)
        size, packed, header = (next(numbers) if w else v for w, v in zip(wide, given, strict=True))
    if packed != size and is_plain:
        raise damaged(source, f"{name!r} has two sizes, {packed} and {size}")
    local = _LOCAL.unpack(source.read(header, _LOCAL.size))
    start = header + _LOCAL.size + local[9] + local[10]
    written = source.read(header + _LOCAL.size, local[9])
    if local[0] != MAGIC or written != name.encode() or start + packed > directory:
        raise damaged(source, f"{name!r} is not where its directory says")
    return Member(name, header, start, packed, crc, is_plain)


def _field(extra: bytes, wanted: int) -> bytes:
    """Return the extra field of that number."""
    place = 0
    while place + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, place)
        if kind == wanted:
            return extra[place + 4 : place + 4 + size]
        place += 4 + size
    return b""


def content(source: Source, member: Member, *, header: bytes = b"", checked: bool = True) -> Array:
    """Return the bytes of a member behind its header, which is known.

    They must have the checksum that was written with them.
    """
    if not member.is_plain:
        raise FileError(
            f"{source.name}: {member.name!r} is compressed or encrypted, and only plain archives "
            "are read; pack it again with `zip -0`"
        )
    length = len(header)
    if member.size < length or source.read(member.start, length) != header:
        raise damaged(source, f"{member.name!r} is not what was described")
    found = source.array(member.start + length, member.size - length)
    if checked and zlib.crc32(found.data, zlib.crc32(header)) != member.crc:
        raise damaged(source, f"the bytes of {member.name!r} are not those that were written")
    return found


# ---- writing ------------------------------------------------------------------------------------


class Writer:
    """Writes an archive to a file object, front to back."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.position = 0
        self.directory: list[bytes] = []

    def _write(self, data: Any) -> None:
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        self.position += len(view)
        while len(view):
            count = self.file.write(view)
            view = view[len(view) if count is None else count :]

    def add(self, name: str, *pieces: Any) -> None:
        """Add a member that consists of these bytes, one after the other."""
        size, crc = sum(memoryview(p).nbytes for p in pieces), 0
        for piece in pieces:
            crc = zlib.crc32(piece, crc)
        encoded, header = name.encode(), self.position
        wide = struct.pack("<2H2Q", 1, 16, size, size) if size >= _LARGE else b""
        shown = min(size, _LARGE)
        unpadded = header + _LOCAL.size + len(encoded) + len(wide) + 4
        padding = -unpadded % ALIGNMENT
        extra = wide + struct.pack("<2H", 0x4246, padding) + bytes(padding)
        facts = (_UTF8, 0, 0, _DAY, crc, shown, shown, len(encoded))
        self._write(_LOCAL.pack(MAGIC, 45, *facts, len(extra)) + encoded + extra)
        for piece in pieces:
            self._write(piece)
        large = [n for n in (size, size, header) if n >= _LARGE]
        more = struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""
        place = min(header, _LARGE)
        entry = _CENTRAL.pack(b"PK\x01\x02", 45, 45, *facts, len(more), 0, 0, 0, 0, place)
        self.directory.append(entry + encoded + more)

    def finish(self) -> None:
        """Write the directory."""
        start, count = self.position, len(self.directory)
        for entry in self.directory:
            self._write(entry)
        size, end = self.position - start, self.position
        if count >= _MANY or size >= _LARGE or start >= _LARGE:
            sizes = (count, count, size, start)
            self._write(_END64.pack(b"PK\x06\x06", _END64.size - 12, 45, 45, 0, 0, *sizes))
            self._write(_LOCATOR.pack(b"PK\x06\x07", 0, end, 1))
        few, shown, place = min(count, _MANY), min(size, _LARGE), min(start, _LARGE)
        self._write(_END.pack(b"PK\x05\x06", 0, 0, few, few, shown, place, 0))
