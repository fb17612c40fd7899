"""Faults of the cache of compiled code and of prepared rows: whatever lies in it, what is loaded is
what was asked for.

A case starts from a cache that is empty or holds good objects, does bad things to it (plants,
links, damage, permissions, other owners, a full disk, a process that is killed, processes that
race), and then asks for functions, and for what is prepared. Each must give its own number, from a
file of ours alone.

    python -m tests.campaigns.cache_faults --seconds 60 --seed 0
"""

from __future__ import annotations

import _ctypes
import atexit
import ctypes
import errno
import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from adjoint.core import cachedir
from adjoint.table.prepared import Prepared
from adjoint.toolchain import build, cache, discovery
from tests.campaigns import campaign
from tests.watching import limited

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
SOMEBODY = 12345
NUMBERS = 4  # functions that a case asks for
EVIL = 666


def source(number: int) -> str:
    return f"void put(void **p) {{ *(long *)p[0] = {number}; }}\n"


def _put(function: Any) -> int:
    place = ctypes.c_long()
    function((ctypes.c_void_p * 1)(ctypes.addressof(place)))
    return place.value


@functools.cache
def _good() -> dict[int, tuple[str, bytes]]:
    """Name and content of sound objects, built once; EVIL's is sealed as well as the others."""
    with _private_cache() as folder:
        _forget()
        discovery.toolchain.cache_clear()
        found = {}
        for number in (*range(NUMBERS), EVIL):
            path = Path(build.build(source(number)))
            found[number] = (path.name, path.read_bytes())
        answer = next(folder.glob("toolchain-*.txt"))
        found[-1] = (answer.name, answer.read_bytes())
        for number, wrong in ((-2, 0), (-EVIL, EVIL)):
            kept = _prepare(wrong, Prepared())
            found[number] = (kept.name, kept.read_bytes())
    return found


def _prepare(wrong: int, prepared: Prepared) -> Path:
    """Keep the numbers, and what is `wrong` with them, for another process."""
    for number in range(NUMBERS):
        prepared.keep(f"number {number}", number + wrong)
    atexit.unregister(prepared.write)  # the directory will be gone
    prepared.write()
    return Path(prepared._path())


@contextmanager
def _private_cache() -> Iterator[Path]:
    before = os.environ.get("ADJOINT_CACHE")
    # A compiler whose caller was killed may still write while its folder is being removed.
    with tempfile.TemporaryDirectory(prefix="cache-faults-", ignore_cleanup_errors=True) as name:
        folder = Path(os.path.realpath(name)) / "cache"
        folder.mkdir(mode=0o700)
        os.environ["ADJOINT_CACHE"] = str(folder)
        try:
            yield folder
        finally:
            if before is None:
                del os.environ["ADJOINT_CACHE"]
            else:
                os.environ["ADJOINT_CACHE"] = before
            _forget()


def _forget() -> None:
    """As in a new process; the toolchain is asked for again only in some cases."""
    for cached in (cache.cache_directory, cache.spare_directory, cachedir.sweep):
        cached.cache_clear()
    for library in build._libraries.values():  # thousands would fill the address space
        _ctypes.dlclose(library._handle)
    build._libraries.clear()
    cache._given_up.clear()


def check(seed: int) -> int:
    """One cache, mistreated."""
    if build.compiler() is None:
        return 1  # nothing is ever loaded
    random_ = random.Random(seed)
    good = _good()
    story: list[str] = [f"seed {seed}"]
    with _private_cache() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _forget()
        for number in range(NUMBERS):
            if random_.random() < 0.8:
                _write(folder / good[number][0], good[number][1])
        for number in (-1, -2):
            if random_.random() < 0.7:
                _write(folder / good[number][0], good[number][1])
        quickly = random_.random() < 0.95
        with _faults(random_, folder, story), limited(60), _compiler(quickly):
            checks = _ask(random_, folder, story) + _ask_for_the_prepared(story)
            if random_.random() < 0.01:
                checks += _ask_for_the_compiler(story)
    return checks


def _ask_for_the_compiler(story: list[str]) -> int:
    """What is said to be the compiler was found by us."""
    discovery.toolchain.cache_clear()
    found = discovery.toolchain()
    assert found is not None, story
    assert "-DEVIL" not in found.flags, story
    return 1


def _ask_for_the_prepared(story: list[str]) -> int:
    """What is recalled was kept by us; a process that works it out keeps it for the next."""
    for _ in range(2):
        prepared = Prepared()
        for number in range(NUMBERS):
            got = prepared.once(f"number {number}", lambda number=number: number)
            assert got == number, f"{story}: prepared {number} is {got}"
        atexit.unregister(prepared.write)
        prepared.write()
    return NUMBERS


@contextmanager
def _compiler(quickly: bool) -> Iterator[None]:
    """The C compiler, or one that knows the objects of this module by heart."""
    real = discovery.Toolchain.compile

    def compile(self: Any, text: str, folder: str, *rest: Any) -> tuple[str, str]:
        for number in range(NUMBERS):
            if source(number) in text:
                made = os.path.join(folder, "program.so")
                Path(made).write_bytes(_good()[number][1][:-40])
                return made, ""
        return real(self, text, folder, *rest)

    if quickly:
        discovery.Toolchain.compile = compile
    try:
        yield
    finally:
        discovery.Toolchain.compile = real


def _ask(random_: random.Random, folder: Path, story: list[str]) -> int:
    """Every function gives its number, and comes from an object that nobody else can write."""
    checks = 0
    for number in random_.sample(range(NUMBERS), random_.choice((1, 2, 4))):
        try:
            got = _put(build.load(source(number), "put"))
        except build.BuildError as error:
            raise AssertionError(f"{story}: {number}: {error}") from error
        assert got == number, f"{story}: {number} gave {got}"
        found = cache.find(_good()[number][0].removesuffix(".so"))
        if found is not None:
            status = os.lstat(found)
            assert status.st_uid == os.geteuid(), f"{story}: owner {status.st_uid}"
            assert status.st_nlink == 1, f"{story}: {status.st_nlink} names"
            assert not status.st_mode & 0o022, f"{story}: mode {status.st_mode:o}"
            assert not os.path.islink(found), f"{story}: a link"
        checks += 1 + (found is not None)
    return checks


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o644)


# -- faults ------------------------------------------------------------------------------------


@contextmanager
def _faults(random_: random.Random, folder: Path, story: list[str]) -> Iterator[None]:
    for _ in range(random_.choice((1, 1, 2, 3))):
        if not os.path.lexists(folder):
            folder.mkdir(mode=0o700)
        fault = random_.choice(_ONCE)
        story.append(fault.__name__)
        fault(random_, folder)
    if random_.random() < 0.1:
        lasting = random_.choice(_LASTING)
        story.append(lasting.__name__)
        with lasting(random_, folder):
            yield
    else:
        yield


def _victim(random_: random.Random, folder: Path) -> Path:
    return folder / _good()[random_.choice((*range(NUMBERS), *range(NUMBERS), -1, -2, -2))][0]


def _evil(path: Path) -> bytes:
    """What an attacker would put in the place of a file: sealed, and well formed."""
    if path.suffix == ".so":
        return _good()[EVIL][1]
    if path.suffix == ".bin":
        return _good()[-EVIL][1]
    changed = _good()[-1][1].replace(b"'-O", b"'-DEVIL', '-O")
    assert changed != _good()[-1][1]
    return changed


def _gone(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def planted_by_somebody(random_: random.Random, folder: Path) -> None:
    path = _victim(random_, folder)
    _gone(path)
    _write(path, _evil(path))
    if ROOT:
        os.chown(path, SOMEBODY, -1)
    else:
        path.chmod(0o666)


def planted_link(random_: random.Random, folder: Path) -> None:
    path, other = _victim(random_, folder), folder.parent / "evil"
    _gone(path)
    _write(other, _evil(path))
    path.symlink_to(random_.choice((other, folder.parent / "nowhere", path)))


def planted_second_name(random_: random.Random, folder: Path) -> None:
    path, other = _victim(random_, folder), folder.parent / f"evil{random_.random()}"
    _gone(path)
    _write(other, _evil(path))
    os.link(other, path)


def written_by_others(random_: random.Random, folder: Path) -> None:
    path = _victim(random_, folder)
    _gone(path)
    _write(path, _evil(path))
    path.chmod(random_.choice((0o666, 0o664, 0o646, 0o777)))


def no_plain_file(random_: random.Random, folder: Path) -> None:
    path = _victim(random_, folder)
    _gone(path)
    if random_.random() < 0.5:
        os.mkfifo(path)
    else:
        path.mkdir()
        (path / "inside").touch()


def truncated(random_: random.Random, folder: Path) -> None:
    path = _victim(random_, folder)
    if path.is_file() and not path.is_symlink() and path.stat().st_size:
        with path.open("rb+") as file:
            file.truncate(random_.randrange(path.stat().st_size))


def damaged(random_: random.Random, folder: Path) -> None:
    path = _victim(random_, folder)
    if path.is_file() and not path.is_symlink() and path.suffix in (".so", ".bin"):
        content = bytearray(path.read_bytes() or b"x")
        for _ in range(random_.choice((1, 1, 30))):
            content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
        with path.open("rb+") as file:
            file.write(content)


def of_another_name(random_: random.Random, folder: Path) -> None:
    """A whole object of ours under the name of another one is damage that a seal does not show."""
    path = _victim(random_, folder)
    _gone(path)
    _write(path, b"garbage")


def emptied(random_: random.Random, folder: Path) -> None:
    if folder.is_symlink():
        return
    shutil.rmtree(folder)
    if random_.random() < 0.5:
        folder.mkdir(mode=0o700)


def directory_open_to_all(random_: random.Random, folder: Path) -> None:
    if folder.is_dir():
        written_by_others(random_, folder)
        folder.chmod(random_.choice((0o777, 0o1777, 0o770, 0o722)))


def parent_open_to_all(random_: random.Random, folder: Path) -> None:
    folder.parent.chmod(0o777)


def directory_of_somebody(random_: random.Random, folder: Path) -> None:
    if ROOT and folder.is_dir():
        os.chown(random_.choice((folder, folder.parent)), SOMEBODY, -1)


def directory_is_a_link(random_: random.Random, folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink():
        other = folder.parent / f"other{random_.random()}"
        folder.rename(other)
        folder.symlink_to(other)


def remains_of_a_build(random_: random.Random, folder: Path) -> None:
    left = folder / f"build-{random_.random()}"
    if folder.is_dir():
        left.mkdir()
        (left / "program.c").write_text("half")
        os.utime(left, (0, time.time() - random_.choice((0, 7200))))


@contextmanager
def full_disk(random_: random.Random, folder: Path) -> Iterator[None]:
    """Renames into the cache fail, sometimes or always."""
    real, rate = os.replace, random_.choice((0.5, 1.0))

    def replace(old: Any, new: Any, **keywords: Any) -> None:
        if str(new).startswith(str(folder)) and random_.random() < rate:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(new))
        real(old, new, **keywords)

    os.replace = replace
    try:
        yield
    finally:
        os.replace = real


@contextmanager
def remover(random_: random.Random, folder: Path) -> Iterator[None]:
    """Another process removes objects all the time, and puts garbage in their place."""
    code = (
        "import os, random, sys, time\nr = random.Random(int(sys.argv[2]))\n"
        "while True:\n"
        "    time.sleep(0.002)\n"
        "    try:\n"
        "        names = [n for n in os.listdir(sys.argv[1]) if n.endswith('.so')]\n"
        "        if names:\n"
        "            path = os.path.join(sys.argv[1], r.choice(names))\n"
        "            if r.random() < 0.5: os.unlink(path)\n"
        "            else:\n"
        "                open(path + '.bad', 'w').write('garbage')\n"
        "                os.rename(path + '.bad', path)\n"
        "    except OSError:\n"
        "        pass\n"
    )
    process = subprocess.Popen([sys.executable, "-S", "-c", code, str(folder), "1"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def racing_processes(random_: random.Random, folder: Path) -> Iterator[None]:
    """Other processes build the same objects, and some of them are killed on the way."""
    code = (
        "import sys\nfrom tests.campaigns.cache_faults import source\n"
        "from adjoint.toolchain import build\n"
        f"for n in range({NUMBERS}): build.build(source(n))\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    workers = [subprocess.Popen(command, start_new_session=True) for _ in range(2)]
    try:
        time.sleep(random_.random())
        for worker in workers:
            if random_.random() < 0.5:
                worker.send_signal(signal.SIGKILL)
        yield
    finally:
        for worker in workers:
            worker.wait()
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)  # the compilers that it left behind


_ONCE: tuple[Callable[[random.Random, Path], None], ...] = (
    planted_by_somebody,
    planted_link,
    planted_second_name,
    written_by_others,
    no_plain_file,
    truncated,
    damaged,
    of_another_name,
    emptied,
    directory_open_to_all,
    parent_open_to_all,
    directory_of_somebody,
    directory_is_a_link,
    remains_of_a_build,
)
_LASTING = (*(full_disk,) * 40, *(remover,) * 4, racing_processes)


if __name__ == "__main__":
    campaign.main(check)
