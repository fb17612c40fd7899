"""The number of threads that compute: it holds in every thread of Python, and in every object."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import loading
from adjoint.core import dtypes, threads
from adjoint.core.importing import imported
from adjoint.core.remembering import cached_property
from adjoint.expressions.trees import Operand, Unary
from adjoint.loops.element_loops import of_tree
from adjoint.optim import pieces
from adjoint.toolchain import build, discovery

pytestmark = [
    pytest.mark.skipif(discovery.toolchain() is None, reason="needs a C compiler"),
    pytest.mark.usefixtures("threads_restored"),
]

COUNT = f"""{threads.TEAM}
#ifdef _OPENMP
extern int omp_get_num_threads(void);
#else
#define omp_get_num_threads() 1
#endif
int count(void) {{
  int found = 0;
#pragma omp parallel num_threads(TEAM)
  {{
#pragma omp atomic write
    found = omp_get_num_threads();
  }}
  return found;
}}
"""


def count() -> int:
    """How many threads share a region of native code that is entered here."""
    return build.library(COUNT).count()


class Elsewhere:
    """Another thread of Python, which computes what it is given."""

    def __init__(self) -> None:
        self.asked, self.done = threading.Event(), threading.Event()
        self.found: Any = None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        self.asked.wait(60)
        self.found = count()
        self.done.set()

    def count(self) -> int:
        self.asked.set()
        self.thread.join(60)
        assert self.done.is_set()
        return self.found


needs_threads = pytest.mark.skipif(
    "-fopenmp" not in getattr(discovery.toolchain(), "flags", ()), reason="needs OpenMP"
)


@needs_threads
def test_the_number_holds_in_threads_that_were_started_before_and_after() -> None:
    before = Elsewhere()
    ad.set_num_threads(3)
    assert (count(), before.count(), Elsewhere().count()) == (3, 3, 3)


@needs_threads
def test_a_thread_sets_the_number_for_all() -> None:
    ad.set_num_threads(1)
    setter = threading.Thread(target=ad.set_num_threads, args=(2,))
    setter.start()
    setter.join(60)
    assert (ad.get_num_threads(), count(), Elsewhere().count()) == (2, 2, 2)


@needs_threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_one_thread_computes_in_a_child_that_was_forked_and_in_its_threads() -> None:
    """OpenMP would wait for threads that have stayed with the parent."""
    ad.set_num_threads(2)
    assert count() == 2
    child = os.fork()
    if not child:
        ad.set_num_threads(2)
        os._exit(0 if (count(), Elsewhere().count()) == (1, 1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_wait_for_a_property_that_its_parent_computes() -> None:
    computes, ends = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def answer(self) -> int:
            if threading.current_thread() is not threading.main_thread():
                computes.set()
                assert ends.wait(60)
            return 7

    other = threading.Thread(target=lambda: Slow().answer)
    other.start()
    assert computes.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(30)  # nobody else would end it
        os._exit(Slow().answer != 7)
    ends.set()
    other.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_thread_waits_for_a_package_that_another_one_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, goes_on, order = threading.Event(), threading.Event(), list[str]()
    monkeypatch.setattr(threading, "ring", (begins, goes_on, order), raising=False)
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring" / "__init__.py").write_text(
        "import threading\n"
        "begins, goes_on, order = threading.ring\n"
        "order.append('package')\n"
        "begins.set()\n"
        "assert goes_on.wait(60)\n"
        "from ring.part import value\n"
    )
    (tmp_path / "ring" / "part.py").write_text(
        "import threading\nthreading.ring[2].append('part')\nimport ring\nvalue = 7\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found: list[Any] = []
    first = threading.Thread(target=imported, args=("ring",))
    first.start()
    assert begins.wait(60)
    second = threading.Thread(target=lambda: found.append(imported("ring.part").value))
    second.start()
    second.join(0.3)  # enough to begin with the part, if it did not wait
    assert order == ["package"]
    goes_on.set()
    first.join(60)
    second.join(60)
    assert (order, found) == (["package", "part"], [7])


_LEFT_OUT = ("maximize", "decay", "shrink")


def _descend(xp: Any, n: Any, p: Any, g: Any) -> Any:
    return (p - n.lr * g,)


def sources() -> Iterator[str]:
    """Native kernels, loops over elements, steps of optimisers, a compiled program."""
    yield from loading.sources()
    yield of_tree(Unary("-", Operand("x", dtypes.float32)), {"x": "float32"}, (), "float32").source
    yield pieces.loop_in(_descend, ("lr",), _LEFT_OUT, 2, np.dtype(np.float32)).source
    x = ad.ones(300, 400)
    yield ad.compile(lambda x: (x.exp() @ x.mT).sum()).lower(x).source


def test_every_region_of_threads_asks_for_the_number() -> None:
    regions = [line for text in sources() for line in re.findall(r"#pragma omp parallel.*", text)]
    assert len(regions) > 50
    assert all("num_threads(" in line for line in regions)


def test_the_parts_of_a_region_do_not_wait_for_each_other() -> None:
    """They may run one after the other (Note [Regions run on the team])."""
    waiting = r"#pragma omp (?:barrier|single|sections|critical|ordered|task|for(?!.* nowait)).*"
    shared = r"#pragma omp (?:parallel )?for.*schedule\((?:dynamic|guided|auto|runtime).*"
    for text in sources():
        text = text.replace(threads.TEAM, "")
        assert not re.findall(waiting, text)
        assert not re.findall(shared, text)


def test_blas_has_one_number_for_all_threads() -> None:
    ad.set_num_threads(2)
    libraries = [ctypes.CDLL(f"/{path}") for path in threads._blas]
    names = {tell.__name__.replace("_set_", "_get_") for tell in threads._tell.values()}
    asked = [getattr(b, n) for b in libraries for n in names if "blas" in n and hasattr(b, n)]
    found: list[int] = []
    other = threading.Thread(target=lambda: found.extend(ask() for ask in asked))
    other.start()
    other.join(60)
    assert found == [2] * len(asked)
