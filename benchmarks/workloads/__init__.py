"""The workloads of `python -m benchmarks`: each module here has a `WORKLOAD`."""

from __future__ import annotations

import importlib

from benchmarks.workload import Workload

NAMES = (
    "tiny_chain",
    "black_scholes",
    "rk4",
    "lstm",
    "gmm",
    "gmm_einsum",
    "bundle_adjustment",
    "heat",
    "gaussian_process",
    "mlp",
    "transformer",
    "logistic",
    "conv_net",
    "resnet_block",
    "lstm_layer",
    "transformer_layer",
)


def load(name: str) -> Workload:
    """The workload of that name."""
    return importlib.import_module(f"benchmarks.workloads.{name}").WORKLOAD
