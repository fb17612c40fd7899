"""The main process' side of the workers: who has which task, in which order results come.

Each worker has a channel of its own, so that no lock is shared: a worker may be killed at any time
without harm to the others. Tasks go round; their results are asked for in the same order, from the
worker that has each, or, with `in_order=False`, from whoever is ready.
"""

from __future__ import annotations

import os
import signal
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

from adjoint.core.errors import AdjointError
from adjoint.utils.data.channels import Channel
from adjoint.utils.data.fetching import Fetching
from adjoint.utils.data.workers import Exhausted, Failure, Restart, Task, Work, WorkerDied, run

_GRACE = 5.0  # seconds that workers have to end by themselves


class WorkerTimeout(AdjointError, RuntimeError, TimeoutError):
    """No worker had a batch ready in time."""


class Worker:
    """A process, the channel to it, and how many tasks it has."""

    def __init__(self, process: Any, channel: Channel) -> None:
        self.process = process
        self.channel = channel
        self.tasks = 0
        self.active = True  # whether it may be given tasks

    def died(self) -> WorkerDied:
        """The error for a process that ended."""
        self.process.join(1.0)
        code = self.process.exitcode
        how = f"with exit code {code}"
        if code is not None and code < 0:
            how = f"by signal {signal.Signals(-code).name}"
        return WorkerDied(
            f"DataLoader worker (pid {self.process.pid}) exited unexpectedly {how}; with "
            "num_workers=0 its work runs in the main process, where errors show"
        )


class Crew:
    """The workers of one loader, and the results that are under way."""

    def __init__(
        self,
        fetching: Fetching,
        count: int,
        context: Any,
        seed: int,
        prepare: Callable[[int], None] | None,
        *,
        prefetch: int,
        timeout: float,
        in_order: bool,
    ) -> None:
        self.prefetch = prefetch
        self.timeout = timeout or None
        self.in_order = in_order
        self.workers: list[Worker] = []
        # Also runs at the end of the process, and when the loader is forgotten.
        self.close = weakref.finalize(self, _end, self.workers, os.getpid())
        try:
            for number in range(count):
                self._start(context, Work(fetching, number, count, seed, prepare))
        except BaseException:
            self.close()
            raise

    def _start(self, context: Any, work: Work) -> None:
        ours, theirs = context.Pipe(duplex=True)
        channel = Channel(ours)
        process = context.Process(target=run, args=(theirs, work), daemon=True)
        process.start()
        theirs.close()
        self.workers.append(Worker(process, channel))

    def begin(self, indices: Iterator[Any], *, again: bool) -> None:
        """Start an epoch, after another one if `again`, and hand out the first tasks."""
        for worker in self.workers if again else ():
            while worker.tasks:  # of an epoch that was left in the middle
                self._receive(worker)
            self._send(worker, Restart())
        self.indices = indices
        self.over = False
        self.turn = 0
        self.pending: deque[Worker] = deque()
        for worker in self.workers:
            worker.active = True
        for _ in range(self.prefetch * len(self.workers)):
            self._hand_out()

    def _hand_out(self) -> None:
        """Give the next task to the next worker that may have one."""
        worker = self._next_worker()
        if worker is None or self.over:
            return
        try:
            index = next(self.indices)
        except StopIteration:
            self.over = True
            return
        self._send(worker, Task(index))
        worker.tasks += 1
        self.pending.append(worker)

    def _next_worker(self) -> Worker | None:
        for _ in self.workers:
            worker = self.workers[self.turn % len(self.workers)]
            self.turn += 1
            if worker.active and (self.in_order or worker.tasks < self.prefetch):
                return worker
        return None

    def _send(self, worker: Worker, message: Any) -> None:
        try:
            worker.channel.send(message)
        except ConnectionError:
            error = worker.died()
            self.close()
            raise error from None

    def next(self) -> Any:
        """Return the next batch; raise StopIteration after the last one."""
        while self.pending:
            worker = self._ready()
            self.pending.remove(worker)
            result = self._receive(worker)
            if type(result) is Exhausted:
                worker.active = False
                self._hand_out()
                continue
            self._hand_out()
            if type(result) is Failure:
                raise result.error()
            return result
        raise StopIteration

    def _ready(self) -> Worker:
        """Return the worker whose result comes next, when it has one."""
        among = [self.pending[0]] if self.in_order else list(dict.fromkeys(self.pending))
        places: dict[Any, Worker] = {}
        for worker in among:
            places[worker.channel.connection] = places[worker.process.sentinel] = worker
        found = wait(list(places), self.timeout)
        if not found:
            raise WorkerTimeout(
                f"DataLoader timed out after {self.timeout} seconds: no worker had a batch ready"
            )
        speaking = [f for f in found if f is places[f].channel.connection]
        return places[(speaking or found)[0]]

    def _receive(self, worker: Worker) -> Any:
        """Return the answer of a worker, or raise if it cannot answer any more."""
        worker.tasks -= 1
        try:
            return worker.channel.receive()
        except (EOFError, ConnectionError):
            error = worker.died()
            self.close()
            raise error from None
        except BaseException:  # interrupted in the middle of a message
            self.close()
            raise


def _end(workers: list[Worker], owner: int) -> None:
    """End all workers: they see that their channel is closed; those that do not are terminated."""
    if os.getpid() != owner:  # a worker's copy
        return
    for worker in workers:
        worker.channel.close()
    end = time.monotonic() + _GRACE
    for worker in workers:
        worker.process.join(max(0.0, end - time.monotonic()))
    for stop in ("terminate", "kill"):
        for worker in workers:
            if worker.process.is_alive():
                getattr(worker.process, stop)()
                worker.process.join(_GRACE)
    workers.clear()
