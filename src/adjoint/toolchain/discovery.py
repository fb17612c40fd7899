"""Which C compiler this machine has, and which flags it takes.

A compiler is asked, not assumed: a small program with threads, vector mathematics and the
processor's own instructions is built and loaded. Features that do not work are left out; generated
code is right without them, only slower. The answer is kept in the cache on disk.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import hashlib
import itertools
import os
import platform
import re
import sys
import warnings
from collections.abc import Iterator
from functools import lru_cache

from adjoint._version import __version__
from adjoint.core.errors import ArgumentError
from adjoint.core.lazy import Lazy
from adjoint.core.records import record
from adjoint.core.threads import follow_own
from adjoint.toolchain import cache, units

# not needed while all objects come from the cache
futures, tempfile, subprocess = Lazy("concurrent.futures"), Lazy("tempfile"), Lazy("subprocess")
shlex, machinery = Lazy("shlex"), Lazy("importlib.util")

FLAGS = (
    "-O3",
    "-std=gnu11",
    "-fPIC",
    "-shared",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",  # whole numbers wrap, as NumPy's do
    "-ffp-contract=off",  # a * b + c rounds twice, as in eager mode: x * y - z * w is 0 if it is
    "-fno-strict-aliasing",  # the arena holds one type after another
    "-w",
)
PROCESSOR = (
    ("-march=native", "-mprefer-vector-width=512"),
    ("-march=native",),
    ("-mcpu=native",),
    (),
)
THREADS = (("-fopenmp",), ("-fopenmp-simd",), ())
# Vector versions of exp, sin, … are in glibc's libmvec. gcc finds them by `declare simd`, and would
# turn sin(x) and cos(x) into sincos, which has no vector version; clang knows them by itself.
VECTORS = {
    "gcc": tuple(f"-fno-builtin-{name}" for name in ("sin", "cos", "sinf", "cosf")),
    "clang": ("-fveclib=libmvec",),
}
# Unrolling loops of known length completely takes gcc a third of its time, and gains nothing. gcc
# 12 loses the rounding of (double)(float)x where it packs statements into vectors.
UNROLLING = {
    "gcc": (
        "-fno-tree-slp-vectorize",
        "--param=max-completely-peel-times=8",
        "--param=max-completely-peeled-insns=60",
    ),
    "clang": (),
}

_PROBE = """
#pragma omp declare simd notinbranch
extern double exp(double);
double probe(const double *x, long count) {
  double y[64], total = 0;
  #pragma omp parallel for simd if (count > 64)
  for (long i = 0; i < count; i++) y[i] = exp(x[i]);
  for (long i = 0; i < count; i++) total += y[i];
  return total;
}
"""
_VECTOR_DECLARATION = re.compile(
    r"^#pragma omp declare simd.*\n(?=extern \w+ (\w+)\((\w+(?:, \w+)*)\))", re.MULTILINE
)


@record
class Toolchain:
    """A compiler that works, and how to call it."""

    command: tuple[str, ...]  # ("/usr/bin/ccache", "gcc")
    version: str  # what --version says: "gcc (Debian 12.2.0-14) 12.2.0 …"
    flags: tuple[str, ...]  # before the source: ("-O3", …)
    libraries: tuple[str, ...]  # after it: ("-lmvec", "-lm")

    def compile(
        self, source: str, folder: str, more: tuple[str, ...] = (), at_once: int = 1
    ) -> tuple[str, str]:
        """Compile in a folder, long sources in up to `at_once` units.

        Return the path of the object, and the compiler's words if there is none.
        """
        made = os.path.join(folder, "program.so")
        parts = units.split(source, at_once)
        paths = [os.path.join(folder, f"program{n or ''}.c") for n in range(len(parts))]
        for path, text in zip(paths, parts, strict=True):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        if len(parts) > 1:
            with futures.ThreadPoolExecutor(len(parts)) as pool:
                answers = list(pool.map(lambda path: self._object(path, more), paths))
            if said := "\n".join(filter(None, answers)):
                return made, said
            paths = [_object_of(path) for path in paths]
        flags = (*self.flags, *more)
        return made, self._call(folder, (*flags, *paths, "-o", made), made)

    def _object(self, path: str, more: tuple[str, ...]) -> str:
        """Compile one of several units; return the compiler's message if it failed."""
        flags = [f for f in (*self.flags, *more) if f != "-shared"]
        made = _object_of(path)
        return self._call(os.path.dirname(path), (*flags, "-c", path, "-o", made), made)

    def _call(self, folder: str, words: tuple[str, ...], made: str) -> str:
        """Call the compiler to make a file; return its message if it made none."""
        libraries = () if "-c" in words else self.libraries
        run = subprocess.run(
            [*self.command, *words, *libraries],
            env=os.environ | {"LC_ALL": "C", "TMPDIR": folder},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if run.returncode == 0 and os.path.exists(made):
            return ""
        said = run.stderr.replace(f"{folder}{os.sep}", "").strip()
        return said or f"exit status {run.returncode}"

    def adapt(self, source: str) -> str:
        """The source without vector functions that this machine's C library lacks."""

        def kept(declaration: re.Match[str]) -> str:
            name, types = declaration[1], tuple(declaration[2].split(", "))
            there = "-lmvec" in self.libraries and _has_vector(name, types)
            return declaration[0] if there else ""

        return _VECTOR_DECLARATION.sub(kept, source)

    def identity(self) -> str:
        """Everything that machine code depends on, apart from its source."""
        call = (*self.command, *self.flags, *self.libraries)
        return "\n".join((self.version, *call, *_machine()))


def _object_of(path: str) -> str:
    """The object file of a unit."""
    return f"{path.removesuffix('.c')}.o"


def extra_flags() -> tuple[str, ...]:
    """The user's own flags, from $ADJOINT_CFLAGS; they come last, so that they win."""
    text = os.environ.get("ADJOINT_CFLAGS", "")
    if not text:
        return ()
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ArgumentError(f"ADJOINT_CFLAGS is {text!r} ({error}); correct or unset it") from None


def compiler() -> tuple[str, ...] | None:
    """The words that call the C compiler of this machine; None if there is none that works."""
    found = toolchain()
    return None if found is None else found.command


@lru_cache(maxsize=1)
def toolchain() -> Toolchain | None:
    """The first compiler that works: $CC, cc, gcc, clang, the wheel `ziglang`."""
    tried: dict[tuple[str, ...], None] = {}
    for command in _candidates():
        if command not in tried:
            tried[command] = None
            if (found := _ask(command)) is not None:
                return found
    return None


def _candidates() -> Iterator[tuple[str, ...]]:
    """Commands that may be C compilers, in the order of preference."""
    wanted = os.environ.get("CC", "").strip()
    if wanted:
        try:
            words = shlex.split(wanted)
        except ValueError:  # a quotation mark without its end
            words = [wanted]
        if path := _which(words[0]):
            yield (os.path.abspath(path), *words[1:])
        else:
            _warn(f"CC is {wanted!r}, and there is no such command")
    for name in ("cc", "gcc", "clang"):
        if path := _which(name):
            yield (path,)
    if sys.executable and machinery.find_spec("ziglang"):
        yield (sys.executable, "-m", "ziglang", "cc")


def _which(name: str) -> str | None:
    """The file that a command runs, as `shutil.which`."""
    folders = [""] if os.path.dirname(name) else os.get_exec_path()
    for path in (os.path.join(folder, name) for folder in folders):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _stamp(command: tuple[str, ...]) -> list[str]:
    """A stamp that recognises a command without a call: its programs' files and times."""
    found = []
    for word in command:
        if (path := _which(word)) is not None:
            status = os.stat(path)
            found += [os.path.realpath(path), f"{status.st_size} {status.st_mtime_ns}"]
    return found


def _warn(what: str) -> None:
    warnings.warn(
        f"ad.compile: {what}; looking for another C compiler. Set CC to one that works, or unset "
        "it",
        stacklevel=2,
    )


def _ask(command: tuple[str, ...]) -> Toolchain | None:
    """The toolchain of a command, from the cache on disk or by probing; None if it is of no use."""
    choices = (FLAGS, *PROCESSOR, *THREADS, *VECTORS.values(), *UNROLLING.values())
    key = "\n".join((*command, *_stamp(command), *itertools.chain(*choices), *_machine()))
    path = os.path.join(cache.cache_directory(), f"toolchain-{_digest(key)}.txt")
    if (known := _read(path)) is not None and known.command == command:
        return known
    try:
        run = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        _warn(f"{shlex.join(command)} does not run ({error})")
        return None
    found = _probe(command, run.stdout.strip())
    if found is not None:
        parts = (found.command, found.version, found.flags, found.libraries)
        cache.write(path, repr(parts))
    return found


def _read(path: str) -> Toolchain | None:
    try:
        command, version, flags, libraries = ast.literal_eval((cache.read(path) or b"").decode())
        words = [tuple(map(str, each)) for each in (command, flags, libraries)]
        return Toolchain(words[0], str(version), words[1], words[2])
    except (OSError, ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _probe(command: tuple[str, ...], version: str) -> Toolchain | None:
    """The toolchain with the first flags with which a small program builds, loads and is right."""
    plain = Toolchain(command, version, FLAGS, ("-lm",))
    said = ""
    for place in (None, cache.cache_directory()):  # either may be full, or forbid execution
        said = _complaint(plain, place)
        if not said:
            better = (c for c in _choices(command, version) if not _complaint(c, place))
            return next(better, plain)
    _warn(f"{shlex.join(command)} cannot build shared libraries ({said.splitlines()[0]})")
    return None


def _choices(command: tuple[str, ...], version: str) -> Iterator[Toolchain]:
    kind = "clang" if "clang" in version else "gcc"
    vectors = ((*VECTORS[kind], "-lmvec"), ())
    unrolling = dict.fromkeys((UNROLLING[kind], ()))
    for choice in itertools.product(PROCESSOR, THREADS, vectors, unrolling):
        chosen = [*itertools.chain(*choice)]
        libraries = (*(f for f in chosen if f.startswith("-l")), "-lm")
        flags = (*FLAGS, *(f for f in chosen if f not in libraries))
        yield Toolchain(command, version, flags, libraries)


def _complaint(candidate: Toolchain, place: str | None) -> str:
    """Why a toolchain fails in a directory (None: the system's temporary one); "" if it works."""
    try:
        with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
            made, said = candidate.compile(candidate.adapt(_PROBE), folder)
            if said:
                return said
            function = open_library(made).probe
            function.restype = ctypes.c_double
            total = function((ctypes.c_double * 64)(), ctypes.c_long(64))
            return "" if total == 64 else f"a sum of 64 ones was {total}"
    except OSError as error:
        return str(error)


class OtherObject(OSError):
    """A shared library that lacks the variable by which its name is known."""


def open_library(path: str, mark: str = "") -> ctypes.CDLL:
    """Load a shared library, and check that it has a variable named `mark`.

    Where OpenMP has threads of its own (Note [Regions run on the team]), they spin for some ten
    microseconds at the end of a loop, waiting for the next one, and then yield the core: waking a
    thread takes longer than most loops over a million numbers.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    library = ctypes.CDLL(path)
    if mark and not hasattr(library, mark):
        _close(library)  # otherwise another file at this path would not be loaded
        raise OtherObject("was made of other code than its name says")
    return follow_own(library)


def _close(library: ctypes.CDLL) -> None:
    """Unload a shared library, where the system can."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        close = ctypes.CDLL(None).dlclose
        close.argtypes = [ctypes.c_void_p]
        close(library._handle)


@lru_cache
def _has_vector(name: str, types: tuple[str, ...]) -> bool:
    """Whether libmvec has the vector version of a function, e.g. _ZGVbN2v_exp."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False  # on other processors libmvec lacks some widths that gcc would call
    try:
        library = ctypes.CDLL("libmvec.so.1")
    except OSError:
        return False
    width = 4 if types[0] == "float" else 2
    return hasattr(library, f"_ZGVbN{width}{'v' * len(types)}_{name}")


@lru_cache(maxsize=1)
def _machine() -> tuple[str, ...]:
    """Processor, its instructions, the C library, and our version."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            features = next(line for line in file if line.lower().startswith(("flags", "features")))
    except (OSError, StopIteration):
        features = platform.processor()
    try:
        library = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError):
        library = platform.platform()
    return platform.machine(), features, library, __version__


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
