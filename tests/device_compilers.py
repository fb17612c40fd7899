"""Compilers of texts for many threads, driven by ctypes: gcc as C99, NVRTC, an OpenCL runtime.

Each takes a text and returns its mistakes, "" if there are none. NVRTC is in the wheel
`nvidia-cuda-nvrtc`; an OpenCL runtime in `intel-opencl-rt` with `intel-cmplr-lib-rt`, or one of the
machine's.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import glob
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from adjoint.compiler.targets.simt.headers import C99, CUDA, OPENCL, Header

Compile = Callable[[str], str]
C99_FLAGS = ("-std=c99", "-pedantic-errors", "-O1", "-ffp-contract=off", "-Werror=implicit")
_INTEL = ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so")  # before its OpenCL


def c99(text: str) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "text.c"
        path.write_text(text)
        command = ["gcc", *C99_FLAGS, "-fsyntax-only", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@cache
def nvrtc() -> Compile | None:
    """NVRTC, if its wheel is there."""
    found = importlib.util.find_spec("nvidia")
    places = [] if found is None else list(found.submodule_search_locations or ())
    libraries = [p for at in places for p in glob.glob(f"{at}/**/libnvrtc.so.*", recursive=True)]
    return _nvrtc(ctypes.CDLL(libraries[0])) if libraries else None


def _nvrtc(library: Any) -> Compile:
    def log(program: Any) -> str:
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, text)
        return text.value.decode()

    def mistakes(text: str) -> str:
        program = ctypes.c_void_p()
        made = library.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), b"text.cu", 0, None, None
        )
        assert made == 0
        flags = (b"--gpu-architecture=sm_75", b"-fmad=false", b"-dlto")
        given = (ctypes.c_char_p * len(flags))(*flags)
        failed = library.nvrtcCompileProgram(program, len(flags), given)
        told = log(program)
        library.nvrtcDestroyProgram(ctypes.byref(program))
        return (told or f"error {failed}") if failed else ""

    return mistakes


@cache
def opencl() -> Compile | None:
    """An OpenCL runtime that compiles for this processor, if there is one."""
    for library in _opencl_libraries():
        compile_text = _opencl(library)
        if compile_text is not None and compile_text("kernel void nothing() {}") == "":
            return compile_text
    return None


def _opencl_libraries() -> list[Any]:
    own = Path(sys.prefix) / "lib"
    if (own / "libintelocl.so").exists():
        for name in _INTEL:
            ctypes.CDLL(str(own / name), mode=ctypes.RTLD_GLOBAL)
        return [ctypes.CDLL(str(own / "libintelocl.so"))]
    found = ctypes.util.find_library("OpenCL")
    return [ctypes.CDLL(found)] if found else []


def _opencl(library: Any) -> Compile | None:
    pointer, count, error = ctypes.c_void_p, ctypes.c_uint(), ctypes.c_int()
    platform, device = pointer(), pointer()
    library.clCreateContext.restype = library.clCreateProgramWithSource.restype = pointer
    if library.clGetPlatformIDs(1, ctypes.byref(platform), ctypes.byref(count)) or not count.value:
        return None
    every = ctypes.c_ulonglong(0xFFFFFFFF)
    if library.clGetDeviceIDs(platform, every, 1, ctypes.byref(device), None):
        return None
    made = library.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(error))
    context = pointer(made)

    def mistakes(text: str) -> str:
        source = (ctypes.c_char_p * 1)(text.encode())
        program = pointer(
            library.clCreateProgramWithSource(context, 1, source, None, ctypes.byref(error))
        )
        failed = library.clBuildProgram(program, 1, ctypes.byref(device), b"", None, None)
        size = ctypes.c_size_t()
        library.clGetProgramBuildInfo(program, device, 0x1183, 0, None, ctypes.byref(size))
        told = ctypes.create_string_buffer(size.value + 1)
        library.clGetProgramBuildInfo(program, device, 0x1183, size.value, told, None)
        library.clReleaseProgram(program)
        return (told.value.decode() or f"error {failed}") if failed else ""

    return mistakes


def targets() -> dict[str, tuple[Header, Compile | None]]:
    """The languages, each with its compiler if there is one."""
    return {"C99": (C99, c99), "CUDA": (CUDA, nvrtc()), "OpenCL": (OPENCL, opencl())}


KERNEL = {  # an entry of a program, in each language
    "C99": "void {0}({1})",
    "CUDA": 'extern "C" __global__ void {0}({1})',
    "OpenCL": "kernel void {0}({1})",
}
GLOBAL = {"C99": "", "CUDA": "", "OpenCL": "global "}
