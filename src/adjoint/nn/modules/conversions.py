"""Modules in another dtype or on another device, in training or not, learning or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.devices import Device
from adjoint.core.dtypes import DType, to_dtype
from adjoint.core.errors import ValueRangeError
from adjoint.homes.structures import StructuredTensor
from adjoint.nn.modules.members import Members
from adjoint.nn.parameter import NoShapeYet, Parameter, is_lazy
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor


class Conversions(Members):
    """What changes all tensors of a module at once."""

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call `fn` on every submodule, and on the module itself last.

        >>> import adjoint as ad
        >>> net = ad.nn.Sequential(ad.nn.Module(), ad.nn.Module())
        >>> _ = net.apply(lambda module: print(type(module).__name__))
        Module
        Module
        Sequential
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace every parameter, gradient and buffer by `fn` of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _replaced(parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Convert floating point and complex tensors of the module, in place.

        Called as `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(tensor)` or
        `to(memory_format=...)`; `non_blocking` changes nothing, for tensors live on the CPU.

        >>> import adjoint as ad
        >>> net = ad.nn.ParameterList([ad.ones(1)])
        >>> net.to(ad.float64)[0].dtype
        ad.float64
        """
        device, dtype, memory_format = _targets(*args, **kwargs)
        if dtype is not None and not dtype.is_differentiable:
            raise TypeError(
                f"Module.to: tensors of a module become floating point or complex, not {dtype.name}"
            )

        def convert(tensor: Tensor) -> Tensor:
            named: dict[str, Any] = {}
            if dtype is not None and tensor.dtype.is_differentiable:
                named["dtype"] = dtype
            if memory_format is not None and tensor.ndim in (4, 5):
                named["memory_format"] = memory_format
            return tensor.to(device=device, **named)

        return self._apply(convert)

    def type(self, dst_type: DType | str) -> Self:
        """Convert all tensors of the module to a dtype, in place."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _floating(self, dtype: DType) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Convert floating point tensors to float32, in place."""
        return self._floating(dtypes.float32)

    def double(self) -> Self:
        """Convert floating point tensors to float64, in place."""
        return self._floating(dtypes.float64)

    def half(self) -> Self:
        """Convert floating point tensors to float16, in place."""
        return self._floating(dtypes.float16)

    def bfloat16(self) -> Self:
        """Convert floating point tensors to bfloat16, in place."""
        return self._floating(dtypes.bfloat16)

    def cpu(self) -> Self:
        """Move all tensors to the CPU, where they are but for meta tensors."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move all tensors to a GPU, which `Tensor.cuda` refuses."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Give all tensors new memory on a device, without values.

        >>> import adjoint as ad
        >>> net = ad.nn.ParameterList([ad.ones(2, device="meta")])
        >>> net.to_empty(device="cpu")[0].device.type
        'cpu'
        """
        return self._apply(lambda t: ops.empty(t.shape, dtype=t.dtype, device=device), recurse)

    def share_memory(self) -> Self:
        """Let other processes see the memory of all tensors, by `Tensor.share_memory_`."""
        return self._apply(_shared)

    def train(self, mode: bool = True) -> Self:
        """Put the module and everything below it in training mode, or out of it."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode is True or False, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Put the module and everything below it out of training mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Ask for gradients of all parameters, or stop asking."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or fill them with zeros."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                _without_history(parameter).zero_()


def _shared(tensor: Any) -> Any:
    if is_lazy(tensor):
        raise NoShapeYet("share_memory: an uninitialized parameter or buffer has no memory yet")
    return tensor.share_memory_()


def _without_history(parameter: Tensor) -> Any:
    """The gradient of a parameter, cut off what it was computed from."""
    grad: Any = parameter.grad
    if grad.grad_fn is not None:
        grad.detach_()
    else:
        grad.requires_grad_(False)
    return grad


def _replaced(parameter: Any, fn: Callable[[Tensor], Tensor]) -> Any:
    """A parameter with other memory and the same identity; another one on another device, or
    where values are kept otherwise.
    """
    with no_grad():
        grad: Any = parameter.grad
        applied, applied_grad = fn(parameter), None if grad is None else fn(grad)
        if applied is parameter:
            return parameter
        if applied.is_meta == parameter.is_meta and _keeps_structure(parameter, applied):
            parameter.data = applied
            if grad is not None and applied_grad is not None:
                grad.data = applied_grad
            return parameter
        made = Parameter(applied, parameter.requires_grad)
        if grad is not None and applied_grad is not None:
            made.grad = applied_grad.requires_grad_(grad.requires_grad)
        return made


def _keeps_structure(parameter: Any, applied: Any) -> bool:
    """Whether both are arrays, or structures of one kind; complex32 is one."""
    before, after = (
        type(t) if isinstance(t, StructuredTensor) else None for t in (parameter, applied)
    )
    return before is after


def _targets(*args: Any, **kwargs: Any) -> tuple[Any, DType | None, Any]:
    """(device, dtype, memory_format), each None where it is to stay."""
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    memory_format = kwargs.pop("memory_format", None)
    kwargs.pop("non_blocking", None)
    if "tensor" in kwargs:
        args = (kwargs.pop("tensor"), *args)
    if "copy" in kwargs:
        raise ValueRangeError(
            "Module.to(copy=...): a module is converted in place; convert copy.deepcopy(module)."
        )
    if kwargs:
        raise TypeError(f"Module.to has no argument {next(iter(kwargs))!r}")
    for position, value in enumerate(args):
        if isinstance(value, Tensor) and position == 0:
            device, dtype = value.device, value.dtype
        elif isinstance(value, DType) and position < 2:
            dtype = value
        elif isinstance(value, (str, int)) and value is not True and position == 0:
            device = Device(value)
        elif value is not None and not (isinstance(value, bool) and position and dtype):
            raise TypeError(
                f"Module.to takes (device, dtype, non_blocking), (dtype, non_blocking) or (tensor, "
                f"non_blocking); argument {position} is {value!r}"
            )
    return device, None if dtype is None else to_dtype(dtype), memory_format
