"""From C text to functions: which compiler is taken, the cache on disk, and bad circumstances."""

from __future__ import annotations

import builtins
import ctypes
import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core import cachedir
from adjoint.toolchain import build, cache, discovery, units

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")

COMPILER = Path((build.compiler() or ("",))[0])
PROGRAM = (
    "import adjoint as ad; print(ad.compile(lambda x: (x.sin() * 3).sum())(ad.ones(4)).item())"
)
PROGRAM_RESULT = pytest.approx(12 * np.sin(1.0), rel=1e-5)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, and a process that remembers nothing; returns where objects will be."""
    place = tmp_path / "cache"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("ADJOINT_CACHE", str(place))
    for name in ("CC", "ADJOINT_CFLAGS", "ADJOINT_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    forget()
    yield place
    monkeypatch.undo()
    forget()


def forget() -> None:
    """As in a new process."""
    for cached in (cache.cache_directory, cache.spare_directory, cachedir.sweep):
        cached.cache_clear()
    discovery.toolchain.cache_clear()
    build._libraries.clear()
    cache._given_up.clear()
    cachedir._written.clear()


def source(number: int) -> str:
    return f"void put(void **p) {{ *(long *)p[0] = {number}; }}\n"


def put(function: Any) -> int:
    """Call a function made from `source`."""
    place = ctypes.c_long()
    function((ctypes.c_void_p * 1)(ctypes.addressof(place)))
    return place.value


def built(text: str) -> Path:
    return Path(build.build(text))


def objects(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.so"))


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def run(
    program: str = PROGRAM, *, before: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, "-c", program],
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


# -- compiling and loading


def test_load_gives_the_function_of_a_source(directory: Path) -> None:
    assert put(build.load(source(7), "put")) == 7
    assert put(build.load(source(8), "put")) == 8
    assert len(objects(directory)) == 2


def test_an_object_is_built_once_and_found_later(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = built(source(1))
    forget()
    monkeypatch.setattr(
        discovery.Toolchain, "compile", lambda *_: pytest.fail("compiled once more")
    )
    assert built(source(1)) == path


def test_load_all_keeps_the_order_and_takes_a_source_twice() -> None:
    numbers = [3, 1, 2, 1]
    functions = build.load_all([(source(n), "put") for n in numbers])
    assert [put(f) for f in functions] == numbers
    assert build.load_all([]) == []


def meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on each compiler of a source waits until a second one runs beside it."""
    meet = f"""
    case "$*" in *.c\\ *)
      if [ -e {tmp_path}/meet ]; then
        touch {tmp_path}/$$.here
        for i in $(seq 200); do
          [ $(ls {tmp_path}/*.here | wc -l) -ge 2 ] && exec {COMPILER} "$@"
          sleep 0.05
        done
        exit 1
      fi;;
    esac
    exec {COMPILER} "$@"
    """
    monkeypatch.setenv("CC", str(script(tmp_path / "meeting", meet)))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert build.compiler() is not None
    (tmp_path / "meet").touch()


def test_build_all_compiles_at_the_same_time(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting(tmp_path, monkeypatch)
    paths = build.build_all([source(n) for n in range(2)])
    assert [Path(p).parent for p in paths] == [directory] * 2
    assert len(set(paths)) == 2


def test_build_all_raises_what_one_source_raises() -> None:
    with pytest.raises(build.BuildError, match="bug of adjoint"):
        build.build_all([source(1), "void broken(", source(2)])


# -- long sources


def long_source(count: int = 40) -> str:
    """Adds 0 + 1 + … in functions of some lines each."""
    lines = ["static inline long twice(long n) { return 2 * n; }"]
    for n in range(count):
        lines += [f"/* model.py:{n}: add */", f"static void nest{n}(long *total, const long by) {{"]
        lines += ["  *total += 0;"] * 50 + ["  *total += by + twice(1) - 2;", "}", ""]
    calls = [f"  nest{n}(p[0], {n});" for n in range(count)]
    return "\n".join([*lines, "void segment0(void **p) {", *calls, "}", ""])


def test_a_long_source_is_compiled_in_units_at_the_same_time(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting(tmp_path, monkeypatch)
    function = build.load(long_source(), "segment0")
    assert put(function) == sum(range(40))
    assert len(list(tmp_path.glob("*.here"))) == 2
    assert [p.suffix for p in objects(directory)] == [".so"]
    library = ctypes.CDLL(str(objects(directory)[0]))
    assert not hasattr(library, "nest0")  # others may have a function of this name


def test_units_hold_every_function_once() -> None:
    text = long_source()
    for most in (2, 3, 16):
        found = units.split(text, most)
        assert len(found) == min(most, text.count("\n") // 500)
        for n in range(40):
            assert sum(f"void nest{n}(long *total, const long by) {{" in u for u in found) == 1
            assert all(f"void nest{n}(long *total, const long by);" in u for u in found)
        assert ["void segment0(" in u for u in found] == [False] * (len(found) - 1) + [True]
        lengths = [u.count("\n") for u in found]
        assert max(lengths) < 1.2 * min(lengths)
    assert units.split(text, 1) == [text]
    assert units.split(long_source(5), 16) == [long_source(5)]
    unlike = "\n".join(source(n).replace("put", f"put{n}") for n in range(2000))
    assert units.split(unlike, 16) == [unlike]


@pytest.mark.parametrize("dynamic", [None, {"x": 0}])
def test_units_compute_the_same_bits(dynamic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: ad.Tensor, w: ad.Tensor) -> ad.Tensor:
        for n in range(6):
            x = ((x @ w).tanh() * (n + 1) + x).cumsum(1)
            x = (x - x.mean(1, True)) / (x.var(1, keepdim=True) + 1e-3).sqrt()
        return (x.logsumexp(0) * x.exp().sum(0)).sum()

    rng = np.random.default_rng(0)
    x, w = (ad.tensor(rng.standard_normal(shape)) for shape in ((30, 20), (20, 20)))
    monkeypatch.setattr(units, "LONG", 50)
    monkeypatch.setattr(units, "_LEAST", 25)
    found = []
    for count in (1, 3):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        shutil.rmtree(build.cache_directory())
        forget()
        compiled = ad.compile(ad.value_and_grad(f, argnums=(0, 1)), dynamic=dynamic)
        assert len(units.split(compiled.lower(x, w).source, count)) == count
        value, gradients = compiled(x, w)
        found.append([t.numpy().tobytes() for t in (value, *gradients)])
    assert found[0] == found[1]


def test_what_is_wrong_in_a_unit_is_an_error_with_advice(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    broken = long_source().replace("by + twice(1)", "by + unknown_thing", 1)
    with pytest.raises(build.BuildError, match=r"bug of adjoint.*unknown_thing.*undeclared"):
        built(broken)
    monkeypatch.setenv("ADJOINT_DEBUG", "1")
    with pytest.raises(build.BuildError, match="The source is .*[.]c, and all it said"):
        built(broken)
    (kept,) = directory.glob("*.c")
    assert kept.read_text() == broken  # whole, not in units
    assert objects(directory) == []


# -- which compiler


def test_cc_may_have_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    text = source(5).replace("5", "MARK")
    for mark in (6, 9):
        monkeypatch.setenv("CC", f"{COMPILER} '-DMARK={mark}'")
        forget()
        assert build.compiler() == (str(COMPILER), f"-DMARK={mark}")
        assert put(build.load(text, "put")) == mark  # the arguments are part of the object's name


def test_cc_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O9")
    with pytest.warns(UserWarning, match="CC is 'no-such-compiler -O9'.*Set CC to one that works"):
        assert build.compiler() is not None
    assert put(build.load(source(4), "put")) == 4


def test_cc_that_cannot_compile_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", str(script(tmp_path / "lazy", "echo I rest; exit 1")))
    with pytest.warns(UserWarning, match="lazy cannot build shared libraries"):
        assert build.compiler() is not None
    assert put(build.load(source(4), "put")) == 4


@pytest.mark.parametrize(
    "refused", ["-fopenmp", "-march=native", "-lmvec", "--param*", "-f*", "-[mf]*"]
)
def test_flags_that_a_compiler_does_not_take_are_left_out(
    refused: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Code is right without them."""
    needed = " | ".join(discovery.FLAGS)
    text = f"""
    for flag; do case "$flag" in {needed}) ;; {refused}) exit 1;; esac; done
    exec {COMPILER} "$@"
    """
    monkeypatch.setenv("CC", str(script(tmp_path / "picky", text)))
    tools = discovery.toolchain()
    assert tools is not None
    assert refused not in tools.flags + tools.libraries
    x = ad.linspace(0.0, 1.0, 37, dtype=ad.float64)
    f = ad.value_and_grad(lambda x: (x.sin() * x.exp()).sum())
    for got, expected in zip(ad.compile(f)(x), f(x), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-12)


def test_vector_functions_that_the_library_lacks_are_not_declared() -> None:
    tools = discovery.toolchain()
    assert tools is not None
    head = "#pragma omp declare simd notinbranch\n"
    missing = "extern double no_such_function(double, double);\n"
    assert tools.adapt(head + missing) == missing
    there = "extern double exp(double);\n"
    expected = head + there if "-lmvec" in tools.libraries else there
    assert tools.adapt(head + there) == expected
    assert discovery.Toolchain(tools.command, "", (), ("-lm",)).adapt(head + there) == there


def test_the_wheel_ziglang_is_the_last_resort(tmp_path: Path) -> None:
    """`python -m ziglang cc` is called; here it is a package that runs the real compiler."""
    package = tmp_path / "site" / "ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import os, sys\n"
        "assert sys.argv[1] == 'cc'\n"
        f"os.environ['PATH'] = {os.environ['PATH']!r}\n"
        f"os.execv({str(COMPILER)!r}, [{str(COMPILER)!r}, *sys.argv[2:]])\n"
    )
    path = os.pathsep.join((str(tmp_path / "site"), *sys.path))
    program = f"{PROGRAM}; from adjoint.toolchain import build; print(build.compiler())"
    result = run(program, PATH=str(tmp_path), PYTHONPATH=path)
    value, command = result.stdout.splitlines()
    assert float(value) == PROGRAM_RESULT
    assert command == str((sys.executable, "-m", "ziglang", "cc"))
    assert result.stderr == ""


def test_without_a_compiler_it_runs_in_eager_mode_and_says_so(tmp_path: Path) -> None:
    program = f"import sys; sys.modules['ziglang'] = None; {PROGRAM}"
    result = run(program, PATH=str(tmp_path))
    assert "no C compiler" in result.stderr
    assert float(result.stdout) == PROGRAM_RESULT


def test_flags_of_the_user_are_used_and_part_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    text = source(5).replace("5", "MARK")
    for mark in (6, 9):
        monkeypatch.setenv("ADJOINT_CFLAGS", f"-DOTHER='a b' -DMARK={mark}")
        assert put(build.load(text, "put")) == mark


# -- errors say what to do


def test_refused_code_is_an_error_with_advice() -> None:
    with pytest.raises(build.BuildError, match=r"without ad\.compile.*ADJOINT_DEBUG=1") as caught:
        built("\n".join(f"void broken{n}(" for n in range(100)))
    assert len(str(caught.value)) < 1200
    assert "error" in str(caught.value)


def test_wrong_flags_of_the_user_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOINT_CFLAGS", "-fno-such-flag")
    with pytest.raises(build.BuildError, match="ADJOINT_CFLAGS, '-fno-such-flag'; correct or"):
        built(source(1))
    monkeypatch.setenv("ADJOINT_CFLAGS", "'-O1")
    with pytest.raises(ad.AdjointError, match="ADJOINT_CFLAGS is .*correct or unset it"):
        built(source(1))


def test_debugging_keeps_sources(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = built(source(1))
    assert not list(directory.glob("*.c"))
    monkeypatch.setenv("ADJOINT_DEBUG", "1")
    assert built(source(1)) == path  # of an object that was there, too
    assert path.with_suffix(".c").read_text() == source(1)
    with pytest.raises(build.BuildError, match="The source is .*[.]c, and all it said"):
        built("void broken(")
    refused = next(p for p in directory.glob("*.c") if p != path.with_suffix(".c"))
    assert refused.read_text() == "void broken("


# -- the cache


def test_processes_build_at_once_into_an_empty_cache(directory: Path) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) for _ in range(8)
    ]
    outputs = [worker.communicate(timeout=1200)[0] for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    assert float(outputs[0]) == PROGRAM_RESULT
    assert len(set(outputs)) == 1
    assert sorted(p.suffix for p in directory.iterdir()) == [".bin", ".so", ".txt"]


def test_the_cache_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path / "new" / "cache"))
    forget()
    mask = os.umask(0)
    try:
        path = built(source(1))
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[: len(b) // 2],
        lambda b: b"",
        lambda b: b[:-1],
        lambda b: b[:99] + b"?" + b[100:],
    ],
    ids=["cut in half", "empty", "cut by a byte", "one byte changed"],
)
def test_a_damaged_object_is_built_again(damage: Any) -> None:
    path = built(source(3))
    good = path.read_bytes()
    path.write_bytes(damage(good))
    forget()
    assert put(build.load(source(3), "put")) == 3
    assert len(path.read_bytes()) == len(good)


def test_an_object_that_cannot_be_loaded_is_built_again(tmp_path: Path) -> None:
    path = built(source(3))
    (tmp_path / "other").write_bytes(b"not an object, but whole")
    cache.keep(str(tmp_path / "other"), str(path))
    forget()
    assert put(build.load(source(3), "put")) == 3


@pytest.mark.parametrize("other", [source(4), "int nothing;\n"], ids=["of another", "without"])
def test_an_object_of_other_code_is_built_again(other: str, tmp_path: Path) -> None:
    """It is whole and sealed, under a name that is not its own: it would give other numbers, or
    lack the function.
    """
    path = built(source(3))
    good = path.read_bytes()
    (tmp_path / "other.c").write_text(other)
    words = (str(COMPILER), "-shared", "-fPIC", str(tmp_path / "other.c"))
    subprocess.run([*words, "-o", str(tmp_path / "other")], check=True)
    cache.keep(str(tmp_path / "other"), str(path))
    forget()
    with pytest.warns(UserWarning, match="made of other code than its name says.*built again"):
        assert put(build.load(source(3), "put")) == 3
    assert len(path.read_bytes()) == len(good)
    forget()
    assert put(build.load(source(3), "put")) == 3


def test_an_object_in_the_place_of_another_is_built_again() -> None:
    path, other = built(source(3)), built(source(4))
    shutil.copy(other, path)
    forget()
    with pytest.warns(UserWarning, match="made of other code than its name says"):
        assert put(build.load(source(3), "put")) == 3


def test_a_damaged_toolchain_is_asked_again(directory: Path) -> None:
    expected = discovery.toolchain()
    (answer,) = directory.glob("toolchain-*.txt")
    for text in ("", "(", "[]", "()", "(1, 2, 3, 4)", "open('x')", "(" * 1000):
        answer.write_text(text)
        forget()
        assert discovery.toolchain() == expected


def test_the_toolchain_is_asked_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = discovery.toolchain()
    forget()
    monkeypatch.setattr(discovery, "_probe", lambda *_: pytest.fail("asked again"))
    assert discovery.toolchain() == expected


def test_a_compiler_that_changed_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = discovery.toolchain()
    assert first is not None
    for version in ("one", "another"):
        wrapper = script(
            tmp_path / "mycc",
            f'[ "$1" = --version ] && echo {version} && exit\nexec {first.command[0]} "$@"',
        )
        monkeypatch.setenv("CC", str(wrapper))
        forget()
        found = discovery.toolchain()
        assert found is not None
        assert found.version == version


def test_a_cache_that_is_removed_while_in_use_is_made_anew(directory: Path) -> None:
    built(source(1))
    shutil.rmtree(directory)
    assert put(build.load(source(2), "put")) == 2
    assert len(objects(directory)) == 1


def aged(path: Path, days: float) -> Path:
    """A file that was last used some days ago."""
    os.utime(path, (0, time.time() - days * 86400))
    return path


def test_objects_that_were_not_used_for_longest_make_room(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [aged(built(source(n)), 9 - n) for n in range(6)]
    size = paths[0].stat().st_size
    for path in (paths[0], paths[2]):  # they are used now
        forget()
        assert built(source(paths.index(path))) == path
    monkeypatch.setenv("ADJOINT_CACHE_SIZE", str(int(7.6 * size)))
    forget()
    new = built(source(7))  # a process looks when it writes first: there is room
    assert all(p.exists() for p in paths)
    forget()
    last = built(source(8))  # another one: three quarters are kept, those used last
    assert objects(directory) == sorted([paths[0], paths[2], paths[5], new, last])
    monkeypatch.setenv("ADJOINT_CACHE_SIZE", "0")
    forget()
    assert put(build.load(source(9), "put")) == 9
    assert new.exists()  # of this minute: somebody may be about to load it


def test_a_process_that_goes_on_building_makes_room(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = built(source(0)).stat().st_size
    monkeypatch.setenv("ADJOINT_CACHE_SIZE", str(5 * size))
    for number in range(1, 12):
        aged(built(source(number)), 20 - number)
    assert sum(p.stat().st_size for p in objects(directory)) <= 6 * size


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("500M", 500 << 20), ("2 GB", 2 << 30), ("1.5k", 1536), ("77", 77), ("", 1 << 30)],
)
def test_the_size_of_the_cache_is_a_number_of_bytes(
    text: str, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOINT_CACHE_SIZE", text)
    assert cachedir.limit() == wanted


def test_a_size_of_the_cache_that_is_no_number_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOINT_CACHE_SIZE", "much")
    with pytest.warns(UserWarning, match="ADJOINT_CACHE_SIZE is 'much'.*as 500M or 2G"):
        assert cachedir.limit() == 1 << 30


def test_the_command_empties_the_cache(directory: Path) -> None:
    built(source(1))
    words = [sys.executable, "-m", "adjoint", "native", "--clean"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "removed" in said
    assert str(directory) in said
    assert objects(directory) == []
    assert put(build.load(source(1), "put")) == 1


def test_a_killed_process_leaves_the_cache_usable(directory: Path, tmp_path: Path) -> None:
    """It is killed while the compiler runs; its folder goes away an hour later."""
    slow = f"""
    [ -e {tmp_path}/slow ] && case "$*" in *build-*) sleep 60;; esac
    exec {COMPILER} "$@"
    """
    cc = str(script(tmp_path / "slow-cc", slow))
    ask = "from adjoint.toolchain import build; build.compiler()"
    assert run(ask, CC=cc).returncode == 0
    (tmp_path / "slow").touch()
    worker = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"CC": cc}, start_new_session=True
    )
    try:
        for _ in range(1200):
            if list(directory.glob("build-*/program.c")):
                break
            time.sleep(0.05)
        time.sleep(0.1)
        worker.kill()
        assert worker.wait() == -signal.SIGKILL
    finally:
        os.killpg(worker.pid, signal.SIGKILL)  # the compiler lives on, as it would
    (tmp_path / "slow").unlink()
    (left,) = directory.glob("build-*")
    assert objects(directory) == []
    result = run(CC=cc)
    assert float(result.stdout) == PROGRAM_RESULT
    assert result.stderr == ""
    assert len(objects(directory)) == 1
    assert left.exists()  # it might still be building
    os.utime(left, (0, time.time() - 7200))
    assert run(PROGRAM.replace("3", "4"), CC=cc).returncode == 0
    assert not left.exists()


def test_a_cache_that_cannot_be_made_warns_and_works(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run(ADJOINT_CACHE=str(tmp_path / "file" / "cache"), TMPDIR=str(tmp_path))
    assert result.stderr.count("cannot be used") == 1
    assert "set ADJOINT_CACHE to a directory of your own" in result.stderr
    assert float(result.stdout) == PROGRAM_RESULT
    assert not list(tmp_path.glob("adjoint-*"))  # what took its place is gone with the process


@pytest.mark.parametrize("call", ["write", "rename"])
def test_a_full_disk_warns_once_and_works(
    call: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build.compiler() is not None

    def full(path: Any, *rest: Any, real: Any, **keywords: Any) -> Any:
        if str(path).startswith(str(directory)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(path, *rest, **keywords)

    owner, name = {"write": (builtins, "open"), "rename": (os, "replace")}[call]
    real = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *a, **k: full(*a, real=real, **k))
    with pytest.warns(UserWarning, match="No space left.*Make room") as caught:
        functions = build.load_all([(source(n), "put") for n in range(3)])
    assert len(caught) == 1
    assert [put(f) for f in functions] == [0, 1, 2]
    assert put(build.load(source(5), "put")) == 5
    assert objects(directory) == []
    assert not list(directory.glob("build-*"))


def test_nowhere_to_write_is_an_error_that_helps(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build.compiler() is not None
    monkeypatch.setattr(tempfile, "mkdtemp", lambda *_, **__: os.open("/no", os.O_RDONLY))
    with pytest.raises(build.BuildError, match="set ADJOINT_CACHE to a directory with room"):
        built(source(1))


def in_a_mount(options: str, directory: Path, then: str = "true") -> tuple[str, ...]:
    """A command that runs another with a file system of its own in a directory."""
    start = ("unshare", "--map-root-user", "--mount", "sh", "-ec")
    text = f'mount -t tmpfs -o {options} tmpfs {directory}; {then}; exec "$@"'
    try:
        works = subprocess.run([*start, text, "sh", "true"], capture_output=True, check=False)
    except OSError as error:
        pytest.skip(f"no unshare: {error}")
    if works.returncode:
        pytest.skip(f"cannot mount here: {works.stderr.decode().strip()}")
    return (*start, text, "sh")


@pytest.mark.parametrize("blocks", [1, 3, 5])
def test_a_disk_that_fills_during_a_build_warns_and_works(directory: Path, blocks: int) -> None:
    before = in_a_mount(f"size={blocks * 4}k,mode=700", directory)
    result = run(before=before)
    assert float(result.stdout) == PROGRAM_RESULT, result.stderr
    assert result.stderr.count("cannot be used") == 1, result.stderr


def test_a_cache_that_can_only_be_read_is_read(directory: Path) -> None:
    """What it has is used, without a warning; what is new goes elsewhere, with one."""
    assert run().stderr == ""
    (known,) = objects(directory)
    copy = directory.parent / "copy"
    shutil.copytree(directory, copy)
    then = f"cp {copy}/* {directory}; mount -o remount,ro {directory}"
    before = in_a_mount("mode=700", directory, then)
    result = run(before=before)
    assert float(result.stdout) == PROGRAM_RESULT
    assert result.stderr == ""
    result = run(PROGRAM.replace("3", "4"), before=before)
    assert float(result.stdout) == pytest.approx(16 * np.sin(1.0), rel=1e-5)
    assert result.stderr.count("Read-only file system") == 1
    assert objects(directory) == [known]


def test_a_disk_that_forbids_programs_warns_and_works(directory: Path) -> None:
    result = run(before=in_a_mount("mode=700,noexec", directory))
    assert float(result.stdout) == PROGRAM_RESULT, result.stderr
    assert result.stderr.count("cannot be used") == 1, result.stderr


ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
only_root = pytest.mark.skipif(not ROOT, reason="only root can give a file away")
SOMEBODY = 12345


def rejects(directory: Path, match: str) -> None:
    """The cache is not used, with a warning, and another place is."""
    forget()
    with pytest.warns(UserWarning, match=match) as caught:
        assert Path(build.cache_directory()) != directory
    assert "chmod" not in str(caught[0].message)
    assert built(source(1)).parent == Path(build.cache_directory())
    assert put(build.load(source(1), "put")) == 1


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o720, 0o702])
def test_a_cache_that_others_can_write_is_not_used(mode: int, directory: Path) -> None:
    """Loading an object is running it: one that another user may have put there is not loaded."""
    built(source(1))
    directory.chmod(mode)
    rejects(directory, "other users can write it.*Remove it .rm -r ")


@only_root
def test_a_cache_of_another_user_is_not_used(directory: Path) -> None:
    os.chown(directory, SOMEBODY, -1)
    rejects(directory, f"belongs to another user, number {SOMEBODY}.*Remove it")


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_a_cache_below_what_others_can_write_is_not_used(mode: int, tmp_path: Path) -> None:
    """Who can write a directory can put another one in the place of the cache."""
    tmp_path.chmod(mode)
    try:
        rejects(tmp_path / "cache", "above it: other users can write it.*Set ADJOINT_CACHE")
    finally:
        tmp_path.chmod(0o700)


@only_root
def test_a_cache_below_another_users_directory_is_not_used(tmp_path: Path) -> None:
    os.chown(tmp_path, SOMEBODY, -1)
    rejects(tmp_path / "cache", f"above it: it belongs to another user, number {SOMEBODY}")


def test_a_cache_below_a_directory_for_everybodys_files_is_used(tmp_path: Path) -> None:
    """In /tmp nobody can rename what is not his."""
    tmp_path.chmod(0o1777)
    forget()
    assert Path(build.cache_directory()) == tmp_path / "cache"
    tmp_path.chmod(0o700)


def test_a_cache_that_is_a_link_is_where_it_points_to(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link is followed once, and what it points to is checked."""
    (tmp_path / "link").symlink_to(directory)
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path / "link"))
    forget()
    assert Path(build.cache_directory()) == directory
    (tmp_path / "link").unlink()
    assert built(source(1)).parent == directory
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    rejects(tmp_path / "open", "other users can write it")


def linked(path: Path, evil: Path) -> None:
    path.symlink_to(evil)


def linked_to_nothing(path: Path, evil: Path) -> None:
    path.symlink_to(evil.parent / "nothing")


def second_name(path: Path, evil: Path) -> None:
    os.link(evil, path)


def of_somebody(path: Path, evil: Path) -> None:
    shutil.copy(evil, path)
    os.chown(path, SOMEBODY, -1)


def written_by_all(path: Path, evil: Path) -> None:
    shutil.copy(evil, path)
    path.chmod(0o666)


def written_by_a_group(path: Path, evil: Path) -> None:
    shutil.copy(evil, path)
    path.chmod(0o664)


def a_pipe(path: Path, evil: Path) -> None:
    os.mkfifo(path)


def a_directory(path: Path, evil: Path) -> None:
    path.mkdir()
    (path / "file").touch()


PLANTS = [linked, linked_to_nothing, second_name, written_by_all, written_by_a_group, a_pipe,
          a_directory, pytest.param(of_somebody, marks=only_root)]  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_object_is_not_loaded(plant: Any, directory: Path, tmp_path: Path) -> None:
    """Also not after the directory's permissions were mended: what others put there stays out."""
    path = built(source(3))
    evil = built(source(666)).rename(tmp_path / "evil.so")  # sealed, as a plant would be
    path.unlink()
    directory.chmod(0o777)
    plant(path, evil)
    directory.chmod(0o700)
    forget()
    assert put(build.load(source(3), "put")) == 3
    assert path.is_file()
    assert not path.is_symlink()
    assert path.stat().st_nlink == 1


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_toolchain_is_not_run(plant: Any, directory: Path, tmp_path: Path) -> None:
    expected = discovery.toolchain()
    (answer,) = directory.glob("toolchain-*.txt")
    evil = tmp_path / "evil.txt"
    evil.write_text(answer.read_text().replace("-O", "-DEVIL -O"))
    answer.unlink()
    plant(answer, evil)
    forget()
    assert discovery.toolchain() == expected


def test_a_toolchain_for_another_command_is_not_run(directory: Path) -> None:
    """Its file is named by the command; one that says another command was not written by us."""
    expected = discovery.toolchain()
    assert expected is not None
    (answer,) = directory.glob("toolchain-*.txt")
    answer.write_text(answer.read_text().replace(expected.command[0], "/bin/false"))
    forget()
    assert discovery.toolchain() == expected


def test_permissions_that_change_in_a_running_process_are_noticed(directory: Path) -> None:
    built(source(1))
    directory.chmod(0o777)
    with pytest.warns(UserWarning, match="other users can write it"):
        path = built(source(1))
    assert path.parent != directory


def test_directories_above_a_new_cache_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path / "a" / "b" / "cache"))
    forget()
    mask = os.umask(0)
    try:
        assert Path(build.cache_directory()) == tmp_path / "a" / "b" / "cache"
    finally:
        os.umask(mask)
    for folder in ("a", "a/b", "a/b/cache"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
