"""Writes the stubs for type checkers into wheels: the table has to be read for them.

An editable installation has none; `make stubs` writes them beside the modules, where git ignores
them. Wheels that are published (`make dist`, which installs zopfli) are packed as tightly as
deflate allows.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Runs `adjoint stubs` on the source that is packed, and packs what it wrote."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the stubs, unless the installation is editable."""
        if version == "editable":
            return
        self.directory_of_stubs = tempfile.TemporaryDirectory()
        made = Path(self.directory_of_stubs.name)
        source = os.environ | {"PYTHONPATH": str(Path(self.root) / "src")}
        subprocess.run([sys.executable, "-m", "adjoint", "stubs", made], env=source, check=True)
        for path in made.rglob("*.pyi"):
            build_data["force_include"][str(path)] = f"adjoint/{path.relative_to(made).as_posix()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Pack the wheel again, where zopfli is installed."""
        if version != "editable" and find_spec("zopfli") is not None:
            Path(artifact_path).write_bytes(packed(artifact_path))


def packed(path: str) -> bytes:
    """The same archive, each file deflated by zopfli: `zipfile` takes no other compressor."""
    from zopfli.zlib import compress

    body, directory = b"", b""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        for entry in entries:
            data = compress(archive.read(entry))[2:-4]  # without the frame of zlib
            year, month, day, hour, minute, second = entry.date_time
            fields = struct.pack(
                "<5H3I2H", 20, 0, zipfile.ZIP_DEFLATED, hour << 11 | minute << 5 | second // 2,
                (year - 1980) << 9 | month << 5 | day, entry.CRC, len(data), entry.file_size,
                len(name := entry.filename.encode()), 0,
            )  # fmt: skip
            system = struct.pack("<H", entry.create_system << 8 | 20)
            place = struct.pack("<3H2I", 0, 0, 0, entry.external_attr, len(body))
            directory += b"PK\1\2" + system + fields + place + name
            body += b"PK\3\4" + fields + name + data
    count = len(entries)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory), len(body), 0)
    return body + directory + end
