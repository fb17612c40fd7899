"""Runs the samples of one OpInfo through PyTorch and adjoint, and compares values and derivatives.

Checks, in order: `value` (elements, dtype, shape, structure), `warning` (adjoint must not warn
where PyTorch does not), `inputs` (arguments left alone, or changed as PyTorch changes them),
`differentiable` (the same outputs require grad), `reverse`, `second` (reverse over reverse, in
the inputs and the cotangents), `forward`, `forward_over_reverse`.

Where PyTorch itself raises (no forward formula, say) there is nothing to compare with: the check
is counted under `left_out`. Where adjoint raises, the check fails.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

import adjoint as ad
from tests.oracle import bridge, resolve
from tests.oracle.bridge import Untranslatable
from tests.oracle.calls import (
    arguments_of,
    first_lines,
    is_identity,
    no_warnings,
    not_random,
    run_call,
    seed,
    spread,
    torch_copy,
    unseeded,
)
from tests.oracle.derivatives import DERIVATIVES, Call, Derivative, masked, random_like
from tests.oracle.difference import (
    Disagreement,
    compare_derivative,
    compare_inputs,
    compare_outputs,
    compare_pointed,
    leaf_arrays,
    named,
)
from tests.oracle.report import Failure, Report, describe

DERIVATIVE_SAMPLES = {"float64": 12, "complex128": 12, "float32": 3}  # samples, evenly spread
VALUE_SAMPLES = {"float64": 40, "complex128": 40, "float32": 40}
VALUE_SAMPLES_OTHER = 10
REFERENCE = 1000  # the numbers of reference samples start here
# Operators that return indices, and the position of `dim` among their arguments after the first.
DIM_OF_INDICES = {"sort": 0, "argsort": 0, "topk": 1, "kthvalue": 1, "mode": 0, "median": 0}
UNINITIALISED = ("empty", "new_empty", "resize", "empty_like", "empty_strided", "empty_permuted")


class Comparison:
    """Values and derivatives of one OpInfo in one dtype; what is found goes to `report`."""

    def __init__(self, info: Any, dtype: torch.dtype, report: Report) -> None:
        self.info = info
        self.dtype = dtype
        self.name = bridge.dtype_name(dtype)
        self.report = report
        self.ours = resolve.ours(info)
        self.theirs = unseeded(info.op)
        self.with_grad = info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")

    def run(self) -> None:
        """Compare values and derivatives."""
        for index, sample in spread(
            self.samples, VALUE_SAMPLES.get(self.name, VALUE_SAMPLES_OTHER)
        ):
            self.sample(index, sample, self.value)
        for index, sample in spread(self.extreme_samples(), VALUE_SAMPLES_OTHER):
            self.sample(REFERENCE + index, sample, self.value)
        for index, sample in spread(self.samples, DERIVATIVE_SAMPLES.get(self.name, 0)):
            if self.with_grad:
                self.sample(index, sample, self.derivatives)

    @cached_property
    def samples(self) -> list[Any]:
        """Every sample input; no check changes them."""
        seed(self.report.title, self.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(self.info.sample_inputs("cpu", self.dtype, requires_grad=self.with_grad))

    def extreme_samples(self) -> list[Any]:
        """The reference inputs of elementwise operators: large and small values, inf, NaN."""
        elementwise = isinstance(self.info, UnaryUfuncInfo | BinaryUfuncInfo)
        if not elementwise or self.name not in ("float64", "complex128", "bfloat16", "int64"):
            return []
        seed(self.report.title, self.name, "reference")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(self.info.reference_inputs("cpu", self.dtype))

    def sample(self, index: int, sample: Any, check: Callable[..., None]) -> None:
        if self.info.name.startswith("__") and not isinstance(sample.input, torch.Tensor):
            self.report.left_out["a method of a number"] += 1
            return
        try:
            arguments = (sample.input, sample.args, sample.kwargs)
            check(index, sample, bridge.translate(arguments))
        except Untranslatable as reason:
            self.report.left_out[str(reason)] += 1

    def judge(self, check: str, index: int, arguments: Any, action: Callable[[], None]) -> bool:
        """Run `action` and book it as passed or failed under `check`."""
        try:
            action()
        except (Disagreement, resolve.Missing) as difference:
            message = str(difference)
        except Untranslatable as reason:
            self.report.left_out[str(reason)] += 1
            return False
        except Exception as error:
            message = f"adjoint raised {type(error).__name__}: {first_lines(error)}"
        else:
            self.report.passed[check] += 1
            return True
        call = f"{self.info.name}({describe(arguments)})"
        self.report.failures.append(Failure(check, self.name, index, call, message))
        return False

    # -- values

    def value(self, index: int, sample: Any, ours: Any) -> None:
        theirs = arguments_of(sample)
        expected = self.their_result(sample)
        if expected is None:
            return
        result, elements, theirs_after = expected
        leaf_arrays(result)  # a result that adjoint has no dtype for leaves the sample out
        caught: list[warnings.WarningMessage] = []

        def compare() -> None:
            with ad.no_grad(), warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                # what `import adjoint` puts in place, so that users do not see NumPy's warnings
                warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"adjoint\.")
                got = run_call(self.ours, ours)
                caught.extend(seen)
            self.same(got, result, elements, sample)

        if self.judge("value", index, theirs, compare):
            if elements:
                self.judge("inputs", index, theirs, lambda: compare_inputs(ours, theirs_after))
            self.judge("warning", index, theirs, lambda: no_warnings(caught))

    def their_result(self, sample: Any) -> tuple[Any, bool, Any] | None:
        """Return PyTorch's result, whether it is not random, and the arguments after the call."""
        arguments = torch_copy(arguments_of(sample))
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state = torch.get_rng_state()
                result = run_call(self.theirs, arguments)
        except Exception as error:
            self.report.left_out[f"PyTorch raises {first_lines(error)[:60]}"] += 1
            return None
        uninitialised = self.info.name.rstrip("_").endswith(UNINITIALISED)
        return result, not uninitialised and not_random(state), arguments

    # -- derivatives

    def derivatives(self, index: int, sample: Any, ours: Any) -> None:
        wrapper = self.info.gradcheck_wrapper
        process = sample.output_process_fn_grad
        our_wrapper, our_process = resolve.borrow(wrapper), resolve.borrow(process)
        self.compare_derivatives(
            index,
            sample,
            Call(
                torch, lambda *a, **k: process(wrapper(self.theirs, *a, **k)), arguments_of(sample)
            ),
            Call(ad, lambda *a, **k: our_process(our_wrapper(self.ours, *a, **k)), ours),
            # second order in float32 shows whose rounding is better, not whose formula is right
            ("reverse", "forward") if self.name == "float32" else tuple(DERIVATIVES),
        )

    def compare_derivatives(
        self,
        index: int,
        sample: Any,
        theirs: Call,
        ours: Call,
        checks: Iterable[str],
        prefix: str = "",
    ) -> None:
        arguments = arguments_of(sample)
        if not theirs.wanted:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state = torch.get_rng_state()
                outputs = theirs(theirs.leaves())
        except Exception as error:
            self.report.left_out[f"PyTorch raises {first_lines(error)[:60]}"] += 1
            return
        if not not_random(state):
            self.report.left_out["random"] += 1
            return
        mask = [output.requires_grad for output in outputs]

        def same_mask() -> None:
            got = [output.requires_grad for output in ours(ours.leaves())]
            if got != mask:
                raise Disagreement(f"outputs that require grad: {got}, PyTorch has {mask}")

        if not self.judge(prefix + "differentiable", index, arguments, same_mask) or not any(mask):
            return
        generator = np.random.default_rng(zlib.crc32(f"{self.report.title} {index}".encode()))
        cotangents = [random_like(o, generator) for o in masked(outputs, mask)]
        tangents = [random_like(theirs.tensors[i], generator) for i in theirs.wanted]
        for check in checks:
            self._derivative(
                prefix + check,
                DERIVATIVES[check],
                index,
                arguments,
                theirs,
                ours,
                (mask, cotangents, tangents),
            )

    def _derivative(
        self,
        check: str,
        derivative: Derivative,
        index: int,
        arguments: Any,
        theirs: Call,
        ours: Call,
        seeds: Any,
    ) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = derivative(theirs, *seeds)
        except Exception as error:
            self.report.left_out[f"PyTorch has no {check}: {first_lines(error)[:60]}"] += 1
            return
        loosen = 10.0 if check.endswith(("second", "forward_over_reverse")) else 1.0

        def compare() -> None:
            got = derivative(ours, *seeds)
            for position, (a, b) in enumerate(zip(got, expected, strict=True)):
                with named(f"{'output' if check.endswith('forward') else 'input'} {position}"):
                    compare_derivative(a, b, loosen)

        self.judge(check, index, arguments, compare)

    def same(self, got: Any, result: Any, elements: bool, sample: Any) -> None:
        """Compare results: what OpInfo makes of them where they are not unique (svd, eigh)."""
        process = sample.output_process_fn_grad
        ours = resolve.borrow(process)
        if process.__name__ != "<lambda>" or not is_identity(ours):
            with ad.no_grad():
                compare_outputs(ours(got), process(result), elements=elements)
            return
        try:
            compare_outputs(got, result, elements=elements)
        except Disagreement:
            if self.info.name not in DIM_OF_INDICES:
                raise
            self._same_where_pointed(got, result, sample)

    def _same_where_pointed(self, got: Any, result: Any, sample: Any) -> None:
        """Among equal elements any index will do."""
        place = DIM_OF_INDICES[self.info.name]
        dim = sample.kwargs.get("dim", sample.args[place] if len(sample.args) > place else -1)
        compare_pointed(got, result, bridge.torch_array(sample.input), dim)
