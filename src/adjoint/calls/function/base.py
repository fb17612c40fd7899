"""The class that users' functions derive from."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.calls import dispatch
from adjoint.calls.function import eager, on_levels
from adjoint.calls.function.context import FunctionContext, FunctionNode
from adjoint.core import pytrees
from adjoint.core.errors import GradError, MissingRule
from adjoint.core.state import current
from adjoint.homes import forward, levels
from adjoint.homes.arrays import Operands
from adjoint.homes.structures import StructuredTensor
from adjoint.homes.subclasses import SubclassInterpreter
from adjoint.tensor.home import Height
from adjoint.tensor.nodes import Rule
from adjoint.tensor.tensor import Tensor

_OF_NODES = frozenset(
    ("_register_hook_dict", "metadata", "name", "next_functions", "register_hook")
)


class Function:
    """Base of users' own differentiable functions; call `apply`.

    >>> import adjoint as ad
    >>> class Cube(ad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return grad * 3 * x**2
    >>> x = ad.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward(); x.grad
    tensor(12.)
    """

    generate_vmap_rule = False  # accepted; a vmap rule is generated whenever none is given
    boxed_grads_call = False  # whether backward takes its gradients as one list
    _backward_cls: type[FunctionNode] = FunctionNode  # the class of its nodes
    _rule: Rule

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        name = f"{cls.__name__}Backward"
        cls._backward_cls = type(name, (FunctionNode,), {"__slots__": (), "function": cls})
        cls._rule = Rule(name, eager.pull)
        cls._rule.runs_on_nothing = True

    def __init__(self, *_: Any, **__: Any) -> None:
        warnings.warn(
            f"{type(self).__name__} should not be instantiated: its methods are static, and it is "
            f"called by {type(self).__name__}.apply(…)",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise GradError(
            f"a Function with a non-static forward method is deprecated; make forward and backward "
            f"static methods and call {type(self).__name__}.apply(…)"
        )

    def __getattr__(self, name: str) -> Any:
        if name in _OF_NODES:
            raise GradError(
                f"Attribute {name!r} is invalid for an instance of a Function: it is of grad_fn"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @staticmethod
    def forward(*args: Any, **keywords: Any) -> Any:
        """Compute the function. Takes the context first, unless `setup_context` is given."""
        raise MissingRule("a Function must implement the forward method")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what the derivatives need, apart from `forward`."""
        raise MissingRule("setup_context is not given")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradient of each input, given that of each output."""
        raise MissingRule("backward is not given")

    vjp = backward  # another name for it

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Return the tangent of each output, given that of each input."""
        raise MissingRule("jvp is not given")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Return the output of a whole batch, and the dimension of the batch in each output."""
        raise MissingRule("vmap is not given")

    @classmethod
    def has(cls, name: str) -> bool:
        """Whether a method was given by the user."""
        return getattr(cls, name) is not getattr(Function, name)

    @classmethod
    def reverse(cls) -> Callable[..., Any] | None:
        """The user's `backward`, by either name; None if there is none."""
        if cls.has("backward") and cls.has("vjp"):
            raise GradError(
                f"{cls.__name__} has both 'backward' and 'vjp', which are one method; keep one"
            )
        found = cls.backward if cls.has("backward") else cls.vjp if cls.has("vjp") else None
        if found is None or not cls.boxed_grads_call:
            return found
        return lambda ctx, *grads: found(ctx, list(grads))

    @classmethod
    def apply(cls, *args: Any, **keywords: Any) -> Any:
        """Run the function and record its derivative."""
        if keywords or cls.has("setup_context"):
            args, keywords = _positional(cls, args, keywords)
        top = dispatch.topmost(args)
        if top is not None and top.height >= Height.NUMBER:
            operands = Operands()
            found = cls.apply(*operands.tensors(args), **keywords)
            return operands.arrays_of(found) if operands.arrays else found
        if top is not None:
            top = dispatch.topmost(_with_history(cls, args))
        if top is not None and dispatch.regions:
            top = dispatch.enclosing(top)
        if top is None or top is forward.DUALS or isinstance(top, SubclassInterpreter):
            return eager.run(cls, args, keywords)
        if isinstance(top, (levels.GradLevel, forward.JvpLevel)):
            return on_levels.run(top, cls, args, keywords)
        return top.process_function(cls, args, keywords)

    @classmethod
    def run_forward(
        cls, context: FunctionContext, args: Sequence[Any], keywords: dict[str, Any]
    ) -> Any:
        """Call the user's `forward`, and then `setup_context` if there is one."""
        apart = cls.has("setup_context")
        given = args if apart else (context, *args)
        if not current().levels:
            output = cls.forward(*given, **keywords)
        else:
            with levels.without_tapes():
                output = cls.forward(*given, **keywords)
            height = dispatch.height(args)
            output = pytrees.map(
                lambda value: levels.carried(value, height),
                output,
                is_leaf=lambda value: isinstance(value, Tensor),
            )
        if apart:
            cls.setup_context(context, tuple(args), output)
        return output


class InplaceFunction(Function):
    """A function that remembers whether it writes in place; for old programs."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _with_history(cls: type[Function], args: Sequence[Any]) -> list[Any]:
    """The arguments that may have a derivative; structures are passed on as constants."""
    for number, value in enumerate(args):
        if isinstance(value, StructuredTensor) and value.requires_grad and current().recording:
            raise GradError(
                f"{cls.__name__}: argument {number} is a tensor of {value.layout!r} that requires "
                "a gradient; pass its values(), and make the tensor inside, or detach() it"
            )
    return [a for a in args if not isinstance(a, StructuredTensor)]


_signature = functools.lru_cache(maxsize=1024)(inspect.signature)


def _positional(
    cls: type[Function], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """All arguments by position, defaults included, as `setup_context` and `backward` see them."""
    apart = cls.has("setup_context")
    given = args if apart else (None, *args)
    bound = _signature(cls.forward).bind(*given, **keywords)
    bound.apply_defaults()
    for name, value in bound.kwargs.items():
        if isinstance(value, Tensor) and (value.edge is not None or value.home is not None):
            raise GradError(
                f"{cls.__name__}.apply: {name} is differentiated and can only be given by name, "
                "which has no place in backward; make it a positional argument of forward"
            )
    return bound.args if apart else bound.args[1:], bound.kwargs
