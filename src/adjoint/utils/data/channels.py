"""Channels between processes: values are pickled, and their arrays travel in shared memory.

A small message goes through the pipe. A large one goes into a file that has no name (`memfd`), of
which the pipe carries the descriptor: the receiver maps it, and arrays lie on the map until nobody
uses them. As the file has no name, nothing can be left behind, however a process ends.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import struct
import tempfile
import weakref
from typing import Any

SMALL = 1 << 14  # bytes up to which a message goes through the pipe, which never fills up then
ALIGNMENT = 64
_CAN_SHARE = hasattr(socket, "send_fds")  # descriptors pass through sockets, but on Windows


class Channel:
    """One end of a pipe between two processes."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        _open.add(self)

    def send(self, value: Any) -> None:
        """Send a value; arrays in it are copied once."""
        buffers: list[pickle.PickleBuffer] = []
        text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        pieces = [memoryview(text), *(b.raw() for b in buffers)]
        sizes = [piece.nbytes for piece in pieces]
        ends = _ends(sizes)
        shared = _CAN_SHARE and ends[-1] > SMALL
        header = struct.pack(f"<?I{len(sizes)}Q", shared, len(sizes), *sizes)
        if not shared:
            self.connection.send_bytes(header + b"".join(map(_padded, pieces)))
            return
        with _nameless_file() as file:
            _write(file.fileno(), [p for piece in pieces for p in (piece, _padding(piece))])
            self.connection.send_bytes(header)
            with self._socket() as wire:
                socket.send_fds(wire, [b"."], [file.fileno()])

    def receive(self) -> Any:
        """Wait for a value; its arrays may be written to."""
        data = bytearray(self.connection.recv_bytes())
        shared, count = struct.unpack_from("<?I", data)
        sizes = struct.unpack_from(f"<{count}Q", data, 5)
        ends = _ends(sizes)
        memory = memoryview(self._map(ends[-1]) if shared else data[5 + 8 * count :])
        starts = [0, *ends]
        text, *buffers = [
            memory[start : start + size] for start, size in zip(starts, sizes, strict=False)
        ]
        return pickle.loads(text, buffers=buffers)

    def _map(self, size: int) -> Any:
        with self._socket() as wire:
            _, (descriptor,), _, _ = socket.recv_fds(wire, 1, 1)
        try:
            flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
            return mmap.mmap(descriptor, size, flags)
        finally:
            os.close(descriptor)

    def _socket(self) -> socket.socket:
        return socket.fromfd(self.connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)

    def close(self) -> None:
        """Close this end: the other one sees the end of the file."""
        self.connection.close()


# The channels of this process. A process forked from it has copies of their ends, and as long as
# it keeps them open, nobody sees that this process has closed them.
_open: weakref.WeakSet[Channel] = weakref.WeakSet()


def close_inherited() -> None:
    """Close what a new process has from the one that it was forked from."""
    for channel in list(_open):
        channel.close()
    _open.clear()


def _ends(sizes: Any) -> list[int]:
    """Where pieces end that start at multiples of the alignment, the last one rounded up too."""
    ends, end = [], 0
    for size in sizes:
        end += -(-size // ALIGNMENT) * ALIGNMENT
        ends.append(end)
    return ends


def _padding(piece: memoryview) -> bytes:
    return bytes(-piece.nbytes % ALIGNMENT)


def _padded(piece: memoryview) -> bytes:
    return bytes(piece) + _padding(piece)


def _nameless_file() -> Any:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("adjoint"), "wb", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _write(descriptor: int, pieces: list[Any]) -> None:
    for piece in pieces:
        view = memoryview(piece).cast("B") if len(piece) else memoryview(b"")
        while len(view):
            view = view[os.write(descriptor, view) :]
