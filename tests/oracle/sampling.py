"""PyTorch's sample inputs, without what PyTorch does around them for test classes of its own.

For every list of samples it reads the sources of the whole stack, to find the unittest that asks
for them; before every sample it seeds the devices that are not there, each of which prints the
stack and keeps it. Neither changes a sample, and both together took most of `make oracle`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.testing._internal import common_utils
from torch.testing._internal.opinfo import core


def seed_generators(number: int = common_utils.SEED) -> None:
    """Seed every generator that functions of samples draw from."""
    torch.default_generator.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def no_unittest() -> None:
    """The unittest that asks for samples: there is none here."""


def keep_no_books() -> None:
    """Make PyTorch draw samples, and do nothing else."""
    common_utils.extract_test_fn = core.extract_test_fn = no_unittest
    common_utils.set_rng_seed = seed_generators


@contextmanager
def written_memory() -> Iterator[None]:
    """`torch.empty` gives ones: what lay in memory must not decide whether a call is an error."""
    empty = torch.empty

    def ones(*args: Any, **keywords: Any) -> torch.Tensor:
        with torch.no_grad():
            return empty(*args, **keywords).fill_(1)

    with mock.patch.object(torch, "empty", ones):
        yield
