"""ad.utils.data: datasets, samplers, collation, and loaders with and without worker processes."""

from __future__ import annotations

import collections
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError
from adjoint.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    collate,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)
from adjoint.utils.data.channels import SMALL, Channel
from adjoint.utils.data.collation import default_collate_fn_map

# Processes take turns where there are fewer cores than workers.
pytestmark = pytest.mark.filterwarnings("ignore:DataLoader. num_workers")
WORKERS = pytest.mark.parametrize("workers", [0, 2])


class Numbers(Dataset):
    def __init__(self, count: int = 10) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return ad.full((3,), float(index)), index


class Stream(IterableDataset):
    """0 to count - 1; each worker gives its share."""

    def __init__(self, count: int = 10) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.count, step))


def numbers(batches: Any) -> list[list[int]]:
    return [batch[1].tolist() for batch in batches]


# ---- datasets ------------------------------------------------------------------------------------


def test_datasets_of_datasets() -> None:
    both = Numbers(2) + Numbers(3)
    assert isinstance(both, ConcatDataset)
    assert [both[i][1] for i in range(5)] == [0, 1, 0, 1, 2]
    assert both[-1][1] == 2
    with pytest.raises(IndexError):
        both[5]
    chain = Stream(2) + Stream(3)
    assert isinstance(chain, ChainDataset)
    assert list(chain) == [0, 1, 0, 1, 2]
    stacked = StackDataset([1, 2], Numbers(2))
    assert stacked[1][0] == 2
    with pytest.raises(ValueError, match="lengths"):
        StackDataset([1], [1, 2])
    with pytest.raises(ValueError, match="no datasets"):
        ConcatDataset([])
    with pytest.raises(TypeError, match="ChainDataset"):
        ConcatDataset([Stream()])


def test_a_tensor_dataset_gives_rows_and_whole_batches() -> None:
    x, y = ad.arange(12.0).reshape(4, 3), ad.arange(4)
    data = TensorDataset(x, y)
    assert ad.equal(data[2][0], x[2])
    rows = data.__getitems__([3, -4, 1])
    assert [row[1].item() for row in rows] == [3, 0, 1]
    assert ad.equal(default_collate(rows)[0], x[[3, 0, 1]])
    with pytest.raises(IndexError):
        data.__getitems__([4])
    with pytest.raises(ValueError, match="same length"):
        TensorDataset(x, ad.arange(3))


def test_a_batch_of_a_tensor_dataset_is_that_of_its_rows() -> None:
    data = TensorDataset(ad.randn(10, 2), ad.arange(10))
    fast = list(DataLoader(data, batch_size=4))
    slow = list(DataLoader(data, batch_size=4, collate_fn=lambda rows: default_collate(list(rows))))
    for a, b in zip(fast, slow, strict=True):
        assert type(a) is type(b) is list
        assert all(ad.equal(s, t) for s, t in zip(a, b, strict=True))


def test_random_split_shares_all_samples() -> None:
    generator = ad.Generator().manual_seed(1)
    parts = random_split(Numbers(11), [0.5, 0.3, 0.2], generator)
    assert [len(p) for p in parts] == [6, 3, 2]
    found = sorted(p[i][1] for p in parts for i in range(len(p)))
    assert found == list(range(11))
    again = random_split(Numbers(11), [6, 3, 2], ad.Generator().manual_seed(1))
    assert [p.indices for p in again] == [p.indices for p in parts]
    with pytest.raises(ValueError, match="11"):
        random_split(Numbers(11), [1, 2])
    with pytest.warns(UserWarning, match="no samples"):
        random_split(Numbers(1), [1, 0])


def test_subsets_ask_for_whole_batches() -> None:
    data = Subset(TensorDataset(ad.arange(10)), [9, 3, 5])
    (batch,) = DataLoader(data, batch_size=3)
    assert batch[0].tolist() == [9, 3, 5]


# ---- samplers ------------------------------------------------------------------------------------


def test_random_orders_repeat_with_their_seed() -> None:
    def order() -> list[int]:
        return list(RandomSampler(range(100), generator=ad.Generator().manual_seed(5)))

    assert order() == order()
    assert sorted(order()) == list(range(100))
    sampler = RandomSampler(range(100))
    ad.manual_seed(3)
    first = list(sampler), list(sampler)
    ad.manual_seed(3)
    assert first == (list(sampler), list(sampler))
    assert first[0] != first[1]


def test_numbers_of_samples() -> None:
    assert len(list(RandomSampler(range(3), num_samples=8))) == 8
    drawn = list(RandomSampler(range(3), replacement=True, num_samples=100))
    assert len(drawn) == 100
    assert set(drawn) == {0, 1, 2}
    assert list(RandomSampler([])) == []
    weighted = list(WeightedRandomSampler([1.0, 0.0, 9.0], 50))
    assert set(weighted) == {0, 2}
    assert sorted(WeightedRandomSampler([1, 2, 3], 3, replacement=False)) == [0, 1, 2]
    assert sorted(SubsetRandomSampler([4, 7])) == [4, 7]
    assert len(SequentialSampler("abc")) == 3


@pytest.mark.parametrize(
    ("sampler", "arguments"),
    [
        (RandomSampler, ([1], 1)),
        (RandomSampler, ([1], False, 0)),
        (BatchSampler, ([1], 0, False)),
        (BatchSampler, ([1], 2, 1)),
        (WeightedRandomSampler, ([1.0], -1)),
        (WeightedRandomSampler, ([[1.0]], 1)),
        (DistributedSampler, ([1], 2, 2)),
    ],
)
def test_samplers_check_their_arguments(sampler: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises((ValueError, TypeError)):
        sampler(*arguments)


def test_batches_of_samplers() -> None:
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert len(BatchSampler(range(5), 2, True)) == 2
    assert len(BatchSampler(range(5), 2, False)) == 3


@pytest.mark.parametrize("drop_last", [False, True])
def test_replicas_share_the_samples(drop_last: bool) -> None:
    shares = [
        list(DistributedSampler(range(10), 4, rank, seed=1, drop_last=drop_last))
        for rank in range(4)
    ]
    assert [len(s) for s in shares] == [2 if drop_last else 3] * 4
    together = collections.Counter(i for s in shares for i in s)
    assert len(together) == (8 if drop_last else 10)
    sampler = DistributedSampler(range(10))
    first = list(sampler)
    assert sorted(first) == list(range(10))
    sampler.set_epoch(1)
    assert list(sampler) != first


# ---- collation -----------------------------------------------------------------------------------


class Point(NamedTuple):
    x: Any
    y: Any


def test_batches_have_the_form_of_samples() -> None:
    samples = [
        {"t": ad.ones(2) * n, "a": np.full(2, n), "f": 0.5 * n, "i": n, "b": n > 0, "s": "x"}
        for n in range(3)
    ]
    batch = default_collate(samples)
    assert batch["t"].shape == (3, 2)
    assert batch["a"].dtype is ad.int64
    assert batch["f"].dtype is ad.float64
    assert batch["i"].tolist() == [0, 1, 2]
    assert batch["b"].tolist() == [False, True, True]
    assert batch["s"] == ["x"] * 3
    point = default_collate([Point(1, [2, 3.0]), Point(4, [5, 6.0])])
    assert type(point) is Point
    assert point.y[1].tolist() == [3.0, 6.0]
    ordered = default_collate([collections.OrderedDict(b=1, a=2)] * 2)
    assert type(ordered) is collections.OrderedDict
    assert default_collate([np.float32(1.5)] * 2).dtype is ad.float32


def test_what_cannot_be_collated_is_named() -> None:
    with pytest.raises(TypeError, match="object"):
        default_collate([object()])
    with pytest.raises(TypeError, match="<U1"):
        default_collate([np.array(["a"])])
    with pytest.raises(RuntimeError, match=r"\[1, 2\]"):
        default_collate([[1], [1, 2]])


def test_types_of_users_are_collated_by_their_row() -> None:
    class Box:
        def __init__(self, value: int) -> None:
            self.value = value

    def boxes(batch: Any, *, collate_fn_map: Any = None) -> int:
        return sum(box.value for box in batch)

    table: Any = {Box: boxes} | default_collate_fn_map
    batch = collate([{"b": Box(1), "n": 1}, {"b": Box(2), "n": 2}], collate_fn_map=table)
    assert batch["b"] == 3
    assert batch["n"].tolist() == [1, 2]


def test_samples_without_batches_are_converted() -> None:
    got = default_convert({"a": np.ones(2), "l": [np.float64(1.0), (1, "x")], "p": Point(1, 2)})
    assert isinstance(got["a"], ad.Tensor)
    assert isinstance(got["l"][0], ad.Tensor)
    assert got["l"][1] == [1, "x"]
    assert type(got["p"]) is Point
    assert default_convert(np.array("x")) == np.array("x")


# ---- loaders -------------------------------------------------------------------------------------


@WORKERS
def test_batches_come_in_order(workers: int) -> None:
    loader = DataLoader(Numbers(), batch_size=4, num_workers=workers)
    assert len(loader) == 3
    assert numbers(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert numbers(DataLoader(Numbers(), 4, drop_last=True, num_workers=workers))[-1][-1] == 7
    single = list(DataLoader(Numbers(3), batch_size=None, num_workers=workers))
    assert [n for _, n in single] == [0, 1, 2]


def test_a_seed_gives_one_order_for_every_number_of_workers() -> None:
    def order(workers: int) -> Any:
        generator = ad.Generator().manual_seed(7)
        return numbers(
            DataLoader(Numbers(), 3, shuffle=True, num_workers=workers, generator=generator)
        )

    assert order(0) == order(1) == order(2)
    ad.manual_seed(1)
    first = numbers(DataLoader(Numbers(), 3, shuffle=True))
    ad.manual_seed(1)
    assert first == numbers(DataLoader(Numbers(), 3, shuffle=True, num_workers=2))


@WORKERS
def test_iterable_datasets(workers: int) -> None:
    loader = DataLoader(Stream(), batch_size=3, num_workers=workers)
    batches = [b.tolist() for b in loader]
    assert sorted(n for batch in batches for n in batch) == list(range(10))
    if workers:
        assert batches == [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]
    dropped = DataLoader(Stream(), batch_size=4, num_workers=workers, drop_last=True)
    assert all(len(b) == 4 for b in dropped)
    plain = list(DataLoader(Stream(4), batch_size=None, num_workers=workers))
    assert sorted(plain) == [0, 1, 2, 3]


def test_an_iterable_dataset_that_gives_more_than_it_said_warns() -> None:
    class Wrong(Stream):
        def __len__(self) -> int:
            return 3

    loader = DataLoader(Wrong(4))
    assert len([b for b in loader]) == 4  # noqa: C416 - list() would ask for the length
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="length is 3, and this is number 4"):
        assert len(list(loader)) == 4


def test_more_workers_than_cores_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="cores"):
        DataLoader(Numbers(), num_workers=1000)


def test_a_subclass_with_another_getitem_is_asked_one_by_one() -> None:
    class Doubled(TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            return (super().__getitem__(index)[0] * 2,)

    class Shifted(Subset):
        def __getitem__(self, index: Any) -> Any:
            return (super().__getitem__(index)[0] + 1,)

    (batch,) = DataLoader(Doubled(ad.arange(3)), batch_size=3)
    assert batch[0].tolist() == [0, 2, 4]
    (batch,) = DataLoader(Shifted(TensorDataset(ad.arange(3)), [2, 0]), batch_size=2)
    assert batch[0].tolist() == [3, 1]


@WORKERS
def test_samplers_of_users(workers: int) -> None:
    loader = DataLoader(Numbers(), sampler=[3, 1], batch_size=2, num_workers=workers)
    assert numbers(loader) == [[3, 1]]
    loader = DataLoader(Numbers(), batch_sampler=[[1], [2, 3]], num_workers=workers)
    assert numbers(loader) == [[1], [2, 3]]
    assert loader.batch_size is None


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True, "sampler": [1]},
        {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_sampler": [[1]], "drop_last": True},
        {"batch_size": None, "drop_last": True},
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"num_workers": 1, "prefetch_factor": 0},
        {"persistent_workers": True},
        {"multiprocessing_context": "fork"},
        {"num_workers": 1, "multiprocessing_context": "spoon"},
        {"batch_size": 0},
        {"shuffle": "yes"},
    ],
)
def test_options_that_contradict_one_another_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        DataLoader(Numbers(), **options)


def test_iterable_datasets_have_their_own_order() -> None:
    given: list[dict[str, Any]] = [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}]
    for options in given:
        with pytest.raises(ValueError, match="own order"):
            DataLoader(Stream(), **options)
    with pytest.raises(TypeError):
        len(DataLoader(Stream()))


def test_what_a_loader_is_made_of_stays() -> None:
    loader = DataLoader(Numbers())
    for name in ("batch_size", "sampler", "dataset", "drop_last"):
        with pytest.raises(ValueError, match=name):
            setattr(loader, name, 1)
    loader.num_workers = 1


# ---- worker processes ----------------------------------------------------------------------------


def test_large_arrays_lie_in_shared_memory_and_can_be_written_to() -> None:
    data = TensorDataset(ad.ones(4, SMALL), ad.ones(4, SMALL, dtype=ad.bfloat16), ad.arange(4))
    loader = DataLoader(data, batch_size=2, num_workers=1)
    for x, y, z in loader:
        x += 1
        y += 1
        assert x.sum() == 4 * SMALL
        assert y.dtype is ad.bfloat16
        assert z.shape == (2,)


def test_a_channel_carries_values_of_every_size() -> None:
    ours, theirs = (Channel(end) for end in multiprocessing.Pipe())
    small = {"x": ad.arange(3), "text": "x", "empty": np.zeros((0, 2)), "view": ad.ones(3, 2).t()}
    for value in (None, small, small | {"large": ad.arange(SMALL)}, "long" * SMALL):
        ours.send(value)
        got = theirs.receive()
        if isinstance(value, dict):
            assert all(ad.equal(ad.as_tensor(got[k]), ad.as_tensor(v))
                       for k, v in value.items() if k != "text")  # fmt: skip
            got["x"] += 1
        else:
            assert got == value
    ours.close()
    with pytest.raises(EOFError):
        theirs.receive()


class Who(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None
        draws = (ad.rand(()).item(), random.random(), float(np.random.rand()))
        return info.id, info.num_workers, info.seed, os.getpid(), *draws


def test_workers_know_themselves_and_have_seeds_of_their_own() -> None:
    def run() -> Any:
        loader = DataLoader(
            Who(), num_workers=2, generator=ad.Generator().manual_seed(4), collate_fn=tuple
        )
        return [batch[0] for batch in loader]

    rows = run()
    assert [row[0] for row in rows] == [0, 1] * 4
    assert {row[1] for row in rows} == {2}
    assert rows[1][2] == rows[0][2] + 1
    assert len({row[3] for row in rows}) == 2
    assert len({row[4] for row in rows}) == len({row[5] for row in rows}) == 8
    assert len({row[6] for row in rows}) == 8
    again = run()
    assert [row[4:] for row in again] == [row[4:] for row in rows]


def prepare(worker: int) -> None:
    ad.manual_seed(worker)


def test_worker_init_fn_runs_in_each_worker() -> None:
    loader = DataLoader(Who(), num_workers=2, worker_init_fn=prepare, collate_fn=tuple)
    draws = [batch[0][4] for batch in loader]
    ad.manual_seed(1)
    assert draws[1] == ad.rand(()).item()


@pytest.mark.parametrize("method", ["spawn"])
def test_workers_that_do_not_inherit(method: str) -> None:
    loader = DataLoader(Numbers(4), 2, num_workers=1, multiprocessing_context=method)
    assert numbers(loader) == [[0, 1], [2, 3]]


class Breaks(Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        if index == 2:
            raise KeyError("no sample\nhere")
        return index


@WORKERS
def test_exceptions_of_workers_are_raised_here(workers: int) -> None:
    iterator = iter(DataLoader(Breaks(), num_workers=workers))
    assert [next(iterator).item() for _ in range(2)] == [0, 1]
    with pytest.raises(KeyError, match="no sample") as caught:
        next(iterator)
    if workers:
        assert "in __getitem__" in str(caught.value)
        assert "worker process 0" in str(caught.value)
        assert "\n" in str(caught.value)
    assert [b.item() for b in iterator] == [3, 4, 5]


def fails(worker: int) -> None:
    raise OSError("not today")


def test_an_exception_of_worker_init_fn_is_raised_here() -> None:
    loader = DataLoader(Numbers(), num_workers=1, worker_init_fn=fails)
    with pytest.raises(OSError, match="not today"):
        next(iter(loader))


def test_what_cannot_be_sent_is_an_error() -> None:
    loader = DataLoader(Numbers(), num_workers=1, collate_fn=lambda batch: lambda: batch)
    with pytest.raises((AttributeError, TypeError, RuntimeError), match="worker process 0"):
        next(iter(loader))


class Dies(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


def children() -> list[Any]:
    return multiprocessing.active_children()


def test_a_killed_worker_is_noticed_and_nothing_stays() -> None:
    iterator = iter(DataLoader(Dies(), num_workers=2))
    assert next(iterator).item() == 0
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(iterator)
    assert children() == []


class Sleeps(Dataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        time.sleep(60 * index)
        return index


def test_a_late_worker_is_an_error_after_the_timeout() -> None:
    iterator = iter(DataLoader(Sleeps(), num_workers=1, timeout=3))
    assert next(iterator).item() == 0
    with pytest.raises(RuntimeError, match="3 seconds"):
        next(iterator)
    for worker in iterator._crew.workers:  # type: ignore[attr-defined]
        worker.process.kill()  # it would have some seconds to end by itself


def test_workers_end_with_the_iteration() -> None:
    loader = DataLoader(Numbers(), num_workers=2)
    list(loader)
    assert children() == []
    iterator = iter(loader)
    next(iterator)
    assert len(children()) == 2
    del iterator
    assert children() == []


def test_workers_end_while_those_of_a_later_loader_live() -> None:
    first, second = (iter(DataLoader(Numbers(), num_workers=1)) for _ in range(2))
    next(first), next(second)
    (process,) = [worker.process for worker in first._crew.workers]  # type: ignore[attr-defined]
    del first
    assert process.exitcode == 0  # and was not terminated
    assert next(second)[1].item() == 1


def test_persistent_workers_stay() -> None:
    loader = DataLoader(Stream(), batch_size=None, num_workers=2, persistent_workers=True)
    first = sorted(loader)
    before = {p.pid for p in children()}
    next(iter(loader))  # an epoch that is left in the middle
    assert sorted(loader) == first == list(range(10))
    assert {p.pid for p in children()} == before
    assert len(before) == 2
    del loader
    assert children() == []


class Slow(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        time.sleep(0.5 if index == 0 else 0)
        return index


def test_results_may_come_as_they_are_ready() -> None:
    found = [b.item() for b in DataLoader(Slow(), num_workers=2, in_order=False)]
    assert sorted(found) == [0, 1, 2, 3]
    assert found[0] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_loop_leaves_no_process_behind(number: int) -> None:
    program = textwrap.dedent("""
        import signal
        import time
        import adjoint as ad
        from adjoint.utils.data import DataLoader
        from multiprocessing import active_children

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have turned it off
        loader = DataLoader(range(10**9), num_workers=2)
        for n, batch in enumerate(loader):
            if n == 3:
                print(*[p.pid for p in active_children()], flush=True)
            time.sleep(0.01)
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    pids = [int(p) for p in process.stdout.readline().split()]
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert len(pids) == 2
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in errors
        assert errors.count("Traceback") == 1, errors
    for _ in range(100):
        if not any(alive(pid) for pid in pids):
            break
        time.sleep(0.1)
    assert not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def test_data_pipes_are_left_out_by_name() -> None:
    with pytest.raises(AttributeError, match="IterableDataset"):
        _ = ad.utils.data.IterDataPipe
    with pytest.raises(ArgumentError, match="context"):
        DataLoader(Numbers(), num_workers=1, multiprocessing_context=3)
