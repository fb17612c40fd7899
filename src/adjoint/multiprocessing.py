"""`ad.multiprocessing`: Python's `multiprocessing`, and `spawn`, as in `torch.multiprocessing`.

Tensors after `share_memory_()` are the same memory in all processes; others are copied.
"""

from __future__ import annotations

import multiprocessing as _python
from collections.abc import Callable
from typing import Any

from adjoint.core.errors import AdjointError


class ProcessRaisedException(AdjointError, RuntimeError):
    """A process that `spawn` started ended with an error."""


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> list[Any] | None:
    """Run `fn(number, *args)` in `nprocs` processes; wait for them, or return them.

    An error in one of them ends the others, and is raised here.
    """
    context = _python.get_context(start_method)
    processes = [
        context.Process(target=fn, args=(number, *args), daemon=daemon)  # type: ignore[attr-defined]
        for number in range(nprocs)
    ]
    for process in processes:
        process.start()
    if not join:
        return processes
    for number, process in enumerate(processes):
        process.join()
        if process.exitcode:
            for other in processes:
                other.terminate()
            raise ProcessRaisedException(
                f"spawn: process {number} ended with exit code {process.exitcode}; its error is "
                "printed above"
            )
    return None


def get_all_sharing_strategies() -> set[str]:
    """Return the ways in which memory is shared: one."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """Return the way in which memory is shared."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept a way in which memory is shared: there is one."""


_OWN = [name for name, value in globals().items() if getattr(value, "__module__", "") == __name__]


def __getattr__(name: str) -> Any:
    return getattr(_python, name)


def __dir__() -> list[str]:
    return sorted({*_OWN, *dir(_python)})
