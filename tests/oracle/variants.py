"""The other ways to call an operator: `method`, `inplace`, `alias`, `out`; and `error` inputs.

`inplace_error` means that PyTorch refuses to write in place: so must adjoint, and leave the tensor
as it was. `error` means that adjoint must raise too on OpInfo's error inputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

import adjoint as ad
from tests.oracle import bridge, resolve
from tests.oracle.calls import (
    arguments_of,
    first_lines,
    not_random,
    run_call,
    run_inplace,
    seed,
    spread,
    torch_copy,
    unseeded,
)
from tests.oracle.derivatives import Call
from tests.oracle.difference import Disagreement, compare_outputs, leaf_arrays
from tests.oracle.operators import VALUE_SAMPLES, Comparison
from tests.oracle.report import Report
from tests.oracle.sampling import written_memory

VARIANTS = 4  # samples
ERRORS = (ad.AdjointError, TypeError, ValueError, IndexError, RuntimeError, NotImplementedError)


class FullComparison(Comparison):
    """All checks of one OpInfo in one dtype."""

    def run(self) -> None:
        """Compare values and derivatives, then the variants, then the errors."""
        super().run()
        if self.name in VALUE_SAMPLES or self.name in ("int64", "bool"):
            for index, sample in spread(self.samples, VARIANTS):
                self.sample(index, sample, self.variants)
        if self.name == "float32":
            self.errors()

    def variants(self, index: int, sample: Any, ours: Any) -> None:
        expected = self.their_result(sample)
        if expected is None:
            return
        result, elements, _ = expected
        leaf_arrays(result)
        arguments = arguments_of(sample)
        if isinstance(sample.input, torch.Tensor) and self.info.method_variant is not None:
            self.judge(
                "method",
                index,
                arguments,
                lambda: self._variant(ours, result, elements, sample),
            )
        if isinstance(sample.input, torch.Tensor) and self.info.inplace_variant is not None:
            self._inplace(index, sample, ours)
        for alias in self.info.aliases:
            if resolve.probe_name(alias.name):
                continue  # test_missing_operators_are_listed counts it
            self.judge(
                "alias",
                index,
                arguments,
                lambda a=alias.name: self._alias(a, ours, result, elements, sample),
            )
        if self.info.supports_out and isinstance(result, torch.Tensor) and elements:
            self.judge("out", index, arguments, lambda: self._out(ours, result))

    def _variant(self, ours: Any, result: Any, elements: bool, sample: Any) -> None:
        method = resolve.ours_method(self.info, inplace=False)
        with ad.no_grad():
            self.same(run_call(method, ours), result, elements, sample)

    def _alias(self, name: str, ours: Any, result: Any, elements: bool, sample: Any) -> None:
        with ad.no_grad():
            self.same(run_call(resolve.look_up(name), ours), result, elements, sample)

    def _out(self, ours: Any, result: torch.Tensor) -> None:
        target = bridge.to_adjoint(np.ones_like(bridge.torch_array(result)))
        first, args, kwargs = ours
        if "out" in kwargs:
            return
        with ad.no_grad():
            got = self.ours(first, *args, **kwargs, out=target)
        if got is not target:
            raise Disagreement("out= was not returned")
        compare_outputs(target, result)

    def _inplace(self, index: int, sample: Any, ours: Any) -> None:
        arguments = arguments_of(sample)
        theirs_method = unseeded(self.info.inplace_variant)
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state = torch.get_rng_state()
                expected = run_inplace(theirs_method, torch_copy(arguments))
        except Exception as error:
            self._inplace_must_fail(index, arguments, ours, error)
            return
        elements = not_random(state)

        def compare() -> None:
            method = resolve.ours_method(self.info, inplace=True)
            first, args, kwargs = ours
            target = first.detach().clone()
            with ad.no_grad():
                got = method(target, *args, **kwargs)
            if got is not target:
                raise Disagreement("the method did not return self")
            compare_outputs(target, expected, elements=elements)

        if self.judge("inplace", index, arguments, compare) and self.with_grad and elements:
            method = resolve.ours_method(self.info, inplace=True)
            self.compare_derivatives(
                index,
                sample,
                Call(torch, lambda x, *a, **k: theirs_method(x.clone(), *a, **k), arguments),
                Call(ad, lambda x, *a, **k: method(x.clone(), *a, **k), ours),  # type: ignore[misc]
                ("reverse", "forward"),
                "inplace_",
            )

    def _inplace_must_fail(self, index: int, arguments: Any, ours: Any, error: Exception) -> None:
        def compare() -> None:
            method = resolve.ours_method(self.info, inplace=True)
            first, args, kwargs = ours
            target = first.detach().clone()
            before = bridge.ad_array(target)
            try:
                with ad.no_grad():
                    method(target, *args, **kwargs)  # type: ignore[misc]
            except ERRORS:
                after = bridge.ad_array(target)
                if before.tobytes() != after.tobytes():
                    raise Disagreement("the failed in-place call changed its input") from None
                return
            raise Disagreement(f"no error; PyTorch raises {first_lines(error)}")

        self.judge("inplace_error", index, arguments, compare)

    # -- errors

    def errors(self) -> None:
        """Error inputs: adjoint must raise too, and leave the arguments as they were."""
        if self.info.error_inputs_func is None:
            return
        seed(self.report.title, "errors")
        with warnings.catch_warnings(), written_memory():
            warnings.simplefilter("ignore")
            inputs = list(self.info.error_inputs("cpu"))
        for index, case in enumerate(inputs):
            kind = case.error_type
            if isinstance(kind, type) and issubclass(kind, Warning):
                continue
            if kind is Exception and not case.error_regex:
                # OpInfo's way to say that a number may not stand for a tensor; here it may
                self.report.left_out["numbers stand for tensors"] += 1
                continue
            self.sample(index, case.sample_input, lambda i, s, o, c=case: self._error(i, s, o, c))

    def _error(self, index: int, sample: Any, ours: Any, case: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run_call(self.info.op, torch_copy(arguments_of(sample)))
        except Exception:
            pass
        else:
            self.report.left_out["PyTorch does not raise"] += 1
            return

        def compare() -> None:
            before = leaf_arrays(ours)
            try:
                run_call(self.ours, ours)
            except ERRORS:
                after = leaf_arrays(ours)
                if [a.tobytes() for a in before] != [a.tobytes() for a in after]:
                    raise Disagreement("the failed call changed its inputs") from None
                return
            raise Disagreement(f"no error; PyTorch says {case.error_regex!r}")

        self.judge("error", index, arguments_of(sample), compare)


def compare_operator(info: Any, dtypes: Iterable[str] | None = None) -> Report:
    """Run every check of `info` in `dtypes` (all that both libraries have, unless given)."""
    report = Report(resolve.title(info))
    supported = {bridge.dtype_name(d): d for d in info.supported_dtypes("cpu")}
    for name in dtypes or bridge.DTYPES:
        if name in supported:
            FullComparison(info, supported[name], report).run()
    return report
