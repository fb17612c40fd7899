"""Runs the samples of one OpInfo through PyTorch and adjoint and compares, check by check.

Checks, in order: `value` (elements, dtype, shape, structure), `warning` (adjoint must not warn
where PyTorch does not), `inputs` (arguments left alone, or changed as PyTorch changes them),
`differentiable` (the same outputs require grad), `reverse`, `second` (reverse over reverse, in
the inputs and the cotangents), `forward`, `forward_over_reverse`, then `method`, `inplace`,
`inplace_reverse`, `alias`, `out` and `error`.

Where PyTorch itself raises (no forward formula, say) there is nothing to compare with: the check
is counted under `left_out`. Where adjoint raises, the check fails.
"""

from __future__ import annotations

import os
import random
import types
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

import adjoint as ad
from tests.oracle import bridge, resolve
from tests.oracle.bridge import Untranslatable
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

EVERYTHING = bool(os.environ.get("ORACLE_ALL"))
DERIVATIVE_SAMPLES = {"float64": 12, "complex128": 12, "float32": 3}  # samples, evenly spread
VALUE_SAMPLES = {"float64": 40, "complex128": 40, "float32": 40}
VALUE_SAMPLES_OTHER = 10
# Operators that return indices, and the position of `dim` among their arguments after the first.
DIM_OF_INDICES = {"sort": 0, "argsort": 0, "topk": 1, "kthvalue": 1, "mode": 0, "median": 0}
REFERENCE = 1000  # the numbers of reference samples start here
VARIANTS = 4  # samples for method, inplace, alias, out

ERRORS = (ad.AdjointError, TypeError, ValueError, IndexError, RuntimeError, NotImplementedError)
UNINITIALISED = ("empty", "new_empty", "resize", "empty_like", "empty_strided", "empty_permuted")


@dataclass(frozen=True)
class Failure:
    """One check of one sample that did not agree."""

    check: str  # "reverse"
    dtype: str  # "float64"
    sample: int  # 3
    call: str  # "sum(f64[3,4], dim=0)"
    message: str  # "input 0: largest difference 0.3 at (1, 2): adjoint 1.0, PyTorch 1.3"

    def __str__(self) -> str:
        return f"{self.check} [{self.dtype} #{self.sample}] {self.call}\n    {self.message}"


@dataclass
class Report:
    """What became of one OpInfo."""

    title: str
    passed: Counter[str] = field(default_factory=Counter)  # by check
    failures: list[Failure] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # by reason

    def summary(self) -> str:
        failed = Counter(f.check for f in self.failures)
        text = " ".join(
            f"{check} {count}" + (f"+{failed[check]} FAILED" if failed[check] else "")
            for check, count in (self.passed | {c: self.passed[c] for c in failed}).items()
        )
        return f"{self.title}: {text or 'nothing compared'}"


class Comparison:
    """All checks of one OpInfo in one dtype, added to `report`."""

    def __init__(self, info: Any, dtype: torch.dtype, report: Report) -> None:
        self.info = info
        self.dtype = dtype
        self.name = bridge.dtype_name(dtype)
        self.report = report
        self.ours = resolve.ours(info)
        self.theirs = _unseeded(info.op)
        self.with_grad = info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")

    def run(self, only: str | None = None) -> None:
        """Run the checks, or those whose name starts with `only`."""
        wanted = (only or "").startswith
        samples = self.samples()
        values = VALUE_SAMPLES.get(self.name, VALUE_SAMPLES_OTHER)
        for index, sample in _spread(samples, values):
            self.sample(index, sample, self.value)
        for index, sample in _spread(self.extreme_samples(), VALUE_SAMPLES_OTHER):
            self.sample(REFERENCE + index, sample, self.value)
        for index, sample in _spread(samples, DERIVATIVE_SAMPLES.get(self.name, 0)):
            if self.with_grad:
                self.sample(index, sample, self.derivatives)
        if self.name in VALUE_SAMPLES or self.name in ("int64", "bool"):
            for index, sample in _spread(samples, VARIANTS):
                self.sample(index, sample, self.variants)
        if wanted("error") or self.name in ("float32",):
            self.errors()

    def samples(self) -> list[Any]:
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
            message = f"adjoint raised {type(error).__name__}: {_first_lines(error)}"
        else:
            self.report.passed[check] += 1
            return True
        call = f"{self.info.name}({describe(arguments)})"
        self.report.failures.append(Failure(check, self.name, index, call, message))
        return False

    # -- values

    def value(self, index: int, sample: Any, ours: Any) -> None:
        theirs = _args(sample)
        expected = self._their_result(sample)
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
                got = _run(self.ours, ours)
                caught.extend(seen)
            processed = resolve.borrow(sample.output_process_fn_grad)
            if sample.output_process_fn_grad.__name__ == "<lambda>" and _is_identity(processed):
                self._same(got, result, elements, theirs)
            else:
                with ad.no_grad():
                    theirs_processed = sample.output_process_fn_grad(result)
                    compare_outputs(processed(got), theirs_processed, elements=elements)

        if self.judge("value", index, theirs, compare):
            if elements:
                self.judge("inputs", index, theirs, lambda: compare_inputs(ours, theirs_after))
            self.judge("warning", index, theirs, lambda: _no_warnings(caught))

    def _their_result(self, sample: Any) -> tuple[Any, bool, Any] | None:
        """Return PyTorch's result, whether it is not random, and the arguments after the call."""
        arguments = _torch_copy(_args(sample))
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state = torch.get_rng_state()
                result = _run(self.theirs, arguments)
        except Exception as error:
            self.report.left_out[f"PyTorch raises {_first_lines(error)[:60]}"] += 1
            return None
        uninitialised = self.info.name.rstrip("_").endswith(UNINITIALISED)
        return result, not uninitialised and _not_random(state), arguments

    # -- derivatives

    def derivatives(self, index: int, sample: Any, ours: Any) -> None:
        wrapper = self.info.gradcheck_wrapper
        process = sample.output_process_fn_grad
        our_wrapper, our_process = resolve.borrow(wrapper), resolve.borrow(process)
        self._derivatives(
            index,
            sample,
            Call(torch, lambda *a, **k: process(wrapper(self.theirs, *a, **k)), _args(sample)),
            Call(ad, lambda *a, **k: our_process(our_wrapper(self.ours, *a, **k)), ours),
            # second order in float32 shows whose rounding is better, not whose formula is right
            ("reverse", "forward") if self.name == "float32" else tuple(DERIVATIVES),
        )

    def _derivatives(
        self,
        index: int,
        sample: Any,
        theirs: Call,
        ours: Call,
        checks: Iterable[str],
        prefix: str = "",
    ) -> None:
        arguments = _args(sample)
        if not theirs.wanted:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state = torch.get_rng_state()
                outputs = theirs(theirs.leaves())
        except Exception as error:
            self.report.left_out[f"PyTorch raises {_first_lines(error)[:60]}"] += 1
            return
        if not _not_random(state):
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
            self.report.left_out[f"PyTorch has no {check}: {_first_lines(error)[:60]}"] += 1
            return
        loosen = 10.0 if check.endswith(("second", "forward_over_reverse")) else 1.0

        def compare() -> None:
            got = derivative(ours, *seeds)
            for position, (a, b) in enumerate(zip(got, expected, strict=True)):
                with named(f"{'output' if check.endswith('forward') else 'input'} {position}"):
                    compare_derivative(a, b, loosen)

        self.judge(check, index, arguments, compare)

    # -- method, in-place, aliases, out=

    def variants(self, index: int, sample: Any, ours: Any) -> None:
        expected = self._their_result(sample)
        if expected is None:
            return
        result, elements, _ = expected
        leaf_arrays(result)
        arguments = _args(sample)
        if isinstance(sample.input, torch.Tensor) and self.info.method_variant is not None:
            self.judge(
                "method",
                index,
                arguments,
                lambda: self._variant(ours, result, elements, arguments),
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
                lambda a=alias.name: self._alias(a, ours, result, elements),
            )
        if self.info.supports_out and isinstance(result, torch.Tensor) and elements:
            self.judge("out", index, arguments, lambda: self._out(ours, result))

    def _variant(self, ours: Any, result: Any, elements: bool, arguments: Any) -> None:
        method = resolve.ours_method(self.info, inplace=False)
        with ad.no_grad():
            self._same(_run(method, ours), result, elements, arguments)

    def _same(self, got: Any, result: Any, elements: bool, arguments: Any) -> None:
        """Compare results; among equal elements any index will do."""
        try:
            compare_outputs(got, result, elements=elements)
        except Disagreement:
            if self.info.name not in DIM_OF_INDICES:
                raise
            first, args, kwargs = arguments
            place = DIM_OF_INDICES[self.info.name]
            dim = kwargs.get("dim", args[place] if len(args) > place else -1)
            compare_pointed(got, result, bridge.torch_array(first), dim)

    def _alias(self, name: str, ours: Any, result: Any, elements: bool) -> None:
        with ad.no_grad():
            compare_outputs(_run(resolve.look_up(name), ours), result, elements=elements)

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
        arguments = _args(sample)
        theirs_method = _unseeded(self.info.inplace_variant)
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state = torch.get_rng_state()
                expected = _run_inplace(theirs_method, _torch_copy(arguments))
        except Exception as error:
            self._inplace_must_fail(index, arguments, ours, error)
            return
        elements = _not_random(state)

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
            self._derivatives(
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
            raise Disagreement(f"no error; PyTorch raises {_first_lines(error)}")

        self.judge("inplace_error", index, arguments, compare)

    # -- errors

    def errors(self) -> None:
        """Error inputs: adjoint must raise too, and leave the arguments as they were."""
        if self.info.error_inputs_func is None:
            return
        seed(self.report.title, "errors")
        with warnings.catch_warnings():
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
                _run(self.info.op, _torch_copy(_args(sample)))
        except Exception:
            pass
        else:
            self.report.left_out["PyTorch does not raise"] += 1
            return

        def compare() -> None:
            before = leaf_arrays(ours)
            try:
                _run(self.ours, ours)
            except ERRORS:
                after = leaf_arrays(ours)
                if [a.tobytes() for a in before] != [a.tobytes() for a in after]:
                    raise Disagreement("the failed call changed its inputs") from None
                return
            raise Disagreement(f"no error; PyTorch says {case.error_regex!r}")

        self.judge("error", index, _args(sample), compare)


def compare_operator(info: Any, dtypes: Iterable[str] | None = None) -> Report:
    """Run every check of `info` in `dtypes` (all that both libraries have, unless given)."""
    report = Report(resolve.title(info))
    supported = {bridge.dtype_name(d): d for d in info.supported_dtypes("cpu")}
    for name in dtypes or bridge.DTYPES:
        if name in supported:
            Comparison(info, supported[name], report).run()
    return report


def seed(*words: str) -> None:
    """Seed every generator that sample functions use, from words."""
    number = zlib.crc32(" ".join(words).encode())
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def describe(arguments: Any) -> str:
    """Write the arguments of a call briefly: shapes and dtypes instead of elements."""
    first, args, kwargs = arguments
    shown = [_brief(first), *map(_brief, args), *(f"{k}={_brief(v)}" for k, v in kwargs.items())]
    return ", ".join(shown)


def _brief(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        strides = (
            ""
            if value.layout != torch.strided or value.is_contiguous()
            else f" strides {value.stride()}"
        )
        small = (
            f" = {value.tolist()}" if value.layout == torch.strided and value.numel() <= 2 else ""
        )
        return f"{bridge.dtype_name(value.dtype)}{list(value.shape)}{strides}{small}"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_brief, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value)


def _spread(samples: list[Any], limit: int) -> list[tuple[int, Any]]:
    """Choose at most `limit` samples, evenly, the first and last among them."""
    numbered = list(enumerate(samples))
    if (EVERYTHING and limit) or len(samples) <= limit:
        return numbered
    if limit < 2:
        return numbered[:limit]
    step = (len(samples) - 1) / (limit - 1)
    return [numbered[round(i * step)] for i in range(limit)]


def _unseeded(function: Any) -> Any:
    """PyTorch's function without the fixed seed that OpInfo puts around random operators."""
    if (
        not isinstance(function, types.FunctionType)
        or "testing" not in function.__code__.co_filename
    ):
        return function
    names = dict(function.__globals__, wrapper_set_seed=lambda op, *a, **k: op(*a, **k))
    free = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    free.__kwdefaults__ = function.__kwdefaults__
    return free


def _args(sample: Any) -> tuple[Any, Any, Any]:
    return sample.input, sample.args, sample.kwargs


def _run(function: Any, arguments: Any) -> Any:
    first, args, kwargs = arguments
    return function(first, *args, **kwargs)


def _run_inplace(method: Any, arguments: Any) -> Any:
    first, args, kwargs = arguments
    return method(first.clone(), *args, **kwargs)


def _torch_copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _copy_storage(value.detach()) if value.layout == torch.strided else value.detach()
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, list | tuple):
        return type(value)([_torch_copy(item) for item in value])
    if isinstance(value, dict):
        return {key: _torch_copy(item) for key, item in value.items()}
    return value


def _copy_storage(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides and the same memory around it (`as_strided` reaches there)."""
    if tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg():
        return tensor.clone()
    whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).clone()
    return whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def _no_warnings(caught: list[warnings.WarningMessage]) -> None:
    """Warnings for the user are fine; those of NumPy (division by zero, ...) are not."""
    leaked = [w for w in caught if not issubclass(w.category, UserWarning)]
    if leaked:
        first = leaked[0]
        raise Disagreement(f"{first.category.__name__}: {first.message}")


def _is_identity(function: Any) -> bool:
    marker = object()
    try:
        return function(marker) is marker
    except Exception:
        return False


def _first_lines(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _not_random(state: torch.Tensor) -> bool:
    """Whether PyTorch's generator still has `state`: nothing was drawn since."""
    return torch.equal(torch.get_rng_state(), state)
