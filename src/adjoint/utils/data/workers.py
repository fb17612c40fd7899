"""The worker's side of a `DataLoader`: a process that makes batches until its channel closes."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import signal
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.errors import AdjointError
from adjoint.core.generator import manual_seed
from adjoint.core.records import record
from adjoint.core.threads import set_threads
from adjoint.utils.data.channels import Channel, close_inherited
from adjoint.utils.data.fetching import Fetching

_PATIENCE = 5.0  # seconds after which a worker looks whether its parent lives


@record
class WorkerInfo:
    """What a worker process knows of itself."""

    id: int  # 0 to num_workers - 1
    num_workers: int
    seed: int  # of this worker: that of the epoch plus its id
    dataset: Any  # its copy of the dataset


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return what this worker process knows of itself; None in the main process.

    >>> import adjoint as ad
    >>> ad.utils.data.get_worker_info() is None
    True
    """
    return _info


class WorkerDied(AdjointError, RuntimeError):
    """A worker process ended before its work was done."""


class _Told(KeyError):
    """A KeyError whose message is shown as it is."""

    __str__ = Exception.__str__


@record
class Failure:
    """An exception of a worker, as the main process will raise it."""

    kind: type[BaseException]
    message: str

    @staticmethod
    def of(error: BaseException, worker: int) -> Failure:
        """Describe the exception that is being handled."""
        name = type(error).__name__
        message = (
            f"{name} in DataLoader worker process {worker}. Its traceback:\n"
            f"{traceback.format_exc()}"
        )
        try:
            kind = pickle.loads(pickle.dumps(type(error)))
        except Exception:  # a class that only the worker can name
            kind = RuntimeError
        return Failure(kind, message)

    def error(self) -> BaseException:
        """Return the exception to raise."""
        if self.kind is KeyError:
            return _Told(self.message)
        try:
            return self.kind(self.message)
        except Exception:  # a class with other arguments
            return RuntimeError(self.message)


@record
class Task:
    """A batch to make."""

    index: Any


@record
class Restart:
    """Another epoch begins; iterable datasets start again."""


@record
class Exhausted:
    """The answer to a task of an iterable dataset that is at its end."""


@record
class Work:
    """Everything that a worker process is told when it starts."""

    fetching: Fetching
    worker: int
    workers: int
    seed: int  # of the epoch
    prepare: Callable[[int], None] | None


def run(connection: Any, work: Work) -> None:
    """Make batches until the channel closes: the main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process hears it, and ends us
    close_inherited()
    channel, parent = Channel(connection), os.getppid()
    answer = _started(work)
    # The main process has gone, or has closed the channel: nobody is left to hear an error.
    with contextlib.suppress(EOFError, ConnectionError):
        while _waits(connection, parent):
            task = channel.receive()
            if type(task) is Restart:
                answer = _answering(work)
            else:
                _send(channel, answer(task.index), work.worker)


def _waits(connection: Any, parent: int) -> bool:
    """Wait for a message; say False if the main process does not live any more."""
    while not connection.poll(_PATIENCE):
        if os.getppid() != parent:
            return False
    return True


def _send(channel: Channel, value: Any, worker: int) -> None:
    try:
        channel.send(value)
    except ConnectionError:
        raise
    except Exception as error:  # what cannot be pickled
        channel.send(Failure.of(error, worker))


def _started(work: Work) -> Callable[[Any], Any]:
    """Seed everything random, let the user prepare the process, and begin."""
    global _info
    set_threads(1)  # OpenMP's threads do not live on after a fork, and cores are for workers
    seed = work.seed + work.worker
    manual_seed(seed % 2**64)
    random.seed(seed)
    np.random.seed(np.random.SeedSequence((work.seed % 2**64, work.worker)).generate_state(4))
    _info = WorkerInfo(work.worker, work.workers, seed, work.fetching.dataset)
    try:
        if work.prepare is not None:
            work.prepare(work.worker)
    except Exception as error:
        failure = Failure.of(error, work.worker)
        return lambda index: failure
    return _answering(work)


def _answering(work: Work) -> Callable[[Any], Any]:
    """Return the function from a task to its batch, or to what went wrong."""
    try:
        fetch = work.fetching.start()
    except Exception as error:
        failure = Failure.of(error, work.worker)
        return lambda index: failure

    def answer(index: Any) -> Any:
        try:
            return fetch(index)
        except StopIteration as error:
            return Exhausted() if work.fetching.iterable else Failure.of(error, work.worker)
        except Exception as error:
            return Failure.of(error, work.worker)

    return answer
