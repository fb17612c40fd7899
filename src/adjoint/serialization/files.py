"""`ad.save` and `ad.load`: values to files and back, in adjoint's format, PyTorch's, safetensors.

The content of a file says its format when it is loaded; the suffix of a path, or `format=`, when it
is saved. No format runs code when it is read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from adjoint.core.devices import existing_device
from adjoint.core.errors import ArgumentError, FileError
from adjoint.nn.modules.module import Module
from adjoint.serialization import archives, description, pytorch, pytorch_writer, safetensors
from adjoint.serialization.refusals import Unsaved
from adjoint.serialization.replacing import replace_file
from adjoint.serialization.sources import NotAFile, Source, is_path, opened

_WRITERS: dict[str, Callable[[Any, Any], None]] = {
    "adjoint": description.write,
    "pytorch": pytorch_writer.write,
    "safetensors": safetensors.write,
}
_SUFFIXES = {
    **dict.fromkeys((".pt", ".pth", ".bin", ".ckpt", ".tar"), "pytorch"),
    ".safetensors": "safetensors",
}


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    *,
    format: str | None = None,
) -> None:
    """Write tensors and plain values to a path or to a file object opened for writing.

    `format` is "adjoint" (a zip archive of arrays and a JSON description), "pytorch" (which
    `torch.load` reads) or "safetensors" (a dict of tensors by name). Unless it is given, the suffix
    of a path says it: `.pt`, `.pth`, `.bin`, `.ckpt` and `.tar` are PyTorch's, `.safetensors` is
    safetensors', all others are adjoint's. A file object gets PyTorch's format, or adjoint's where
    that cannot hold the value, or where the object was opened by a name that ends in `.ad`.

    Saved are tensors of every dtype and layout, with views that share memory still sharing it,
    parameters as such, numbers, texts, bytes, None, dtypes, devices, and dicts, lists, tuples and
    sets of those; gradients and histories are not. A module is saved in adjoint's format, as the
    name of its class and its values; `module.state_dict()` depends on less. Anything else is
    refused by name. A path is replaced when all is written: if the process ends before, the old
    file is still there. `pickle_protocol` changes nothing, since no pickler runs, nor does
    `_use_new_zipfile_serialization`: files are archives.

    >>> import adjoint as ad, io
    >>> file = io.BytesIO()
    >>> ad.save({"weight": ad.ones(2, 2), "step": 3}, file)
    >>> _ = file.seek(0)
    >>> ad.load(file)["weight"]
    tensor([[1., 1.],
            [1., 1.]])
    """
    _check_no_pickler("save", pickle_module)
    if sys.byteorder != "little":
        raise FileError("ad.save: files are little-endian, and this machine is not")
    write = _WRITERS[_format(obj, f, format)]
    if not is_path(f):
        if not hasattr(f, "write"):
            raise NotAFile(
                f"ad.save: needs a path or a file opened for writing, got a {type(f).__name__}"
            )
        if format is None and write is pytorch_writer.write:
            _write_either(obj, f)
        else:
            write(obj, f)
        if hasattr(f, "flush"):
            f.flush()  # so that others can read it by its name
        return
    replace_file(os.fspath(f), lambda file: write(obj, file))


def _format(obj: Any, file: Any, wanted: str | None) -> str:
    if wanted is None and isinstance(obj, Module):
        return "adjoint"  # a file of PyTorch has its own modules
    if wanted is None and is_path(file):
        return _SUFFIXES.get(PurePath(os.fsdecode(file)).suffix.lower(), "adjoint")
    if wanted is None:
        return "adjoint" if str(getattr(file, "name", "")).endswith(".ad") else "pytorch"
    if wanted not in _WRITERS:
        raise ArgumentError(f"ad.save(format={wanted!r}): use one of {', '.join(_WRITERS)}")
    return wanted


def _write_either(obj: Any, file: Any) -> None:
    """Write in PyTorch's format if it can hold the value, in adjoint's if not."""
    try:
        encoder = pytorch_writer.encoded(obj)
    except Unsaved:
        description.write(obj, file)
    else:
        pytorch_writer.write_encoded(encoder, file)


def _check_no_pickler(what: str, module: Any) -> None:
    if module is not None:
        raise ArgumentError(
            f"ad.{what}(pickle_module=…): no pickler runs here; leave the argument out"
        )


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    encoding: str = "utf-8",
) -> Any:
    """Read what `ad.save`, `torch.save` or safetensors wrote, from a path or a file object.

    No code is run, whatever the file says: a file of PyTorch is read with a table of the names
    that tensors and state dicts need, and any other name is refused. `weights_only=False` adds
    what can be made without running code: values of NumPy, namespaces, paths, dates, dicts with
    defaults, named tuples, enumerations, and objects that are no more than their attributes, if
    their class was imported before. What is named with `ad.serialization.safe_globals` is called as
    the file says. A module in adjoint's own format is read if its class is adjoint's, was named so,
    or, with `weights_only=False`, was imported before. Tensors of all devices are put on the CPU,
    whatever `map_location` would have said of others. With `mmap=True` a path is mapped: arrays are
    read when they are first used, checksums are not looked at, and writes stay in memory.
    `encoding` is that of texts that Python 2 wrote.

    >>> import adjoint as ad, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ad.save([ad.arange(3), {"lr": 0.1}], f"{folder}/state.pt")
    ...     ad.load(f"{folder}/state.pt")
    [tensor([0, 1, 2]), {'lr': 0.1}]
    """
    _check_no_pickler("load", pickle_module)
    _check_location(map_location)
    source = opened("ad.load", f, mapped=bool(mmap))
    try:
        return _read(source, encoding, weights_only)
    finally:
        source.close()


def _check_location(location: Any) -> None:
    """Check where tensors are wanted: a device, a dict of devices, or a function, as PyTorch's."""
    if location is None or callable(location):
        return
    for place in location.values() if isinstance(location, dict) else [location]:
        if existing_device("ad.load", place).type == "meta":
            raise ArgumentError("ad.load: tensors are loaded with their data; use x.to('meta')")


def _read(source: Source, encoding: str, weights_only: bool | None) -> Any:
    start = source.read(0, min(source.size, 512))
    if start.startswith(archives.MAGIC):
        members = archives.members(source)
        if description.MEMBER in members:
            return description.read(source, members, anything=weights_only is False)
        return pytorch.read_archive(source, members, encoding, weights_only)
    if pytorch.is_legacy(start):
        return pytorch.read_legacy(source, encoding, weights_only)
    if safetensors.is_one(start):
        return safetensors.read(source)
    raise FileError(f"{source.name}: {_unknown(start)}")


_OTHERS = (
    (0, b"\x93NUMPY", "is an array of NumPy: np.load reads it"),
    (257, b"ustar", "is a tar archive, as PyTorch wrote before 0.2; save it again with torch.save"),
    (0, b"\x80", "is a pickle, which can run code when it is read; only PyTorch's are read here"),
    (0, b"PK\x05\x06", "is an empty archive"),
)


def _unknown(start: bytes) -> str:
    if not start:
        return "the file is empty"
    for place, magic, what in _OTHERS:
        if start[place:].startswith(magic):
            return what
    return "is no file of adjoint, PyTorch or safetensors, or its start is damaged"
