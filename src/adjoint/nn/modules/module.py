"""`Module`: the base of all layers and networks.

| file | holds |
| --- | --- |
| `members.py` | parameters, buffers, submodules: names, attributes, walks |
| `hooks.py` | hooks, and the call of a module that has some |
| `backward_hooks.py` | those that see gradients |
| `states.py` | state dicts |
| `conversions.py` | dtype, device, training mode, gradients of all members at once |
| `compiled.py` | forward as native code |
"""

from __future__ import annotations

from typing import Any, Self

from adjoint.core.errors import AdjointError
from adjoint.core.importing import imported
from adjoint.nn.modules import backward_hooks, hooks, members
from adjoint.nn.modules.conversions import Conversions
from adjoint.nn.modules.hooks import (
    EVERYWHERE,
    Hooked,
    register_module_backward_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from adjoint.nn.modules.members import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from adjoint.nn.modules.states import States

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


class NoForward(AdjointError, NotImplementedError):
    """A module that is called and has no forward()."""


class Module(Hooked, States, Conversions):
    """The base of layers and networks: it holds parameters, buffers and other modules.

    Derive from it, assign parameters and modules in `__init__`, and write `forward`.

    >>> import adjoint as ad
    >>> class Scale(ad.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = ad.nn.Parameter(ad.tensor(2.0))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> scale = Scale()
    >>> scale(ad.tensor(3.0)).backward()
    >>> {name: p.grad for name, p in scale.named_parameters()}
    {'factor': tensor(3.)}
    """

    call_super_init: bool = False  # whether __init__ goes on to the next class, with its arguments
    dump_patches: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            given = next(iter(kwargs)) if kwargs else f"{len(args)} positional ones"
            raise TypeError(f"{type(self).__name__}.__init__ takes no arguments, got {given}")
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _modules={},
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks is None and not EVERYWHERE:
            return self.forward(*args, **kwargs)
        return hooks.run(self, args, kwargs)

    def forward(self, *input: Any, **kwargs: Any) -> Any:
        """Compute the result; every module overrides it, with arguments of its own."""
        raise NoForward(f"{type(self).__name__} has no forward(): write one, or call a submodule")

    def extra_repr(self) -> str:
        """Return what stands between the parentheses of the module's text; override it."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(m))}" for name, m in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({extra})"
        inner = "".join(f"  {line}\n" for line in lines + children)
        return f"{self._get_name()}(\n{inner})" if inner else f"{self._get_name()}()"

    def compile(self, *, verbose: bool = False) -> None:
        """Let forward run as native code from now on; `verbose` prints a line for each stage.

        Parameters and buffers may change, and gradients flow to them, as without it.
        `ad.compile(module)` returns a compiled module that shares all tensors with this one.

        >>> import adjoint as ad
        >>> net = ad.nn.Linear(2, 1)
        >>> x = ad.ones(3, 2)
        >>> before = net(x)
        >>> net.compile()
        >>> ad.allclose(net(x), before)
        True
        """
        compiled = imported("adjoint.nn.modules.compiled")  # and the compiler
        self.__dict__["forward"] = compiled.CompiledForward(self, verbose=verbose)

    def compiled_copy(self, *, verbose: bool = False) -> Self:
        """Return a module with the same members whose forward is compiled: `ad.compile(self)`."""
        compiled = imported("adjoint.nn.modules.compiled")  # and the compiler
        return compiled.twin(self, verbose=verbose)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if getattr(state.get("forward"), "is_compiled", False):
            del state["forward"]  # copies and files are not compiled
        for name in ("_hooks", "_state_hooks"):
            if name in state and not _has_hooks(state[name]):
                del state[name]  # all were removed again: a lazy module that has its shapes did
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


# Annotations of the files below name the class, which typing.get_type_hints looks up there.
for below in (members, backward_hooks):
    vars(below)["Module"] = Module


def _has_hooks(tables: Any) -> bool:
    return tables is not None and any(type(t) is not bool and t for t in vars(tables).values())


def indented(text: str) -> str:
    """A text of several lines whose lines after the first are indented."""
    return text.replace("\n", "\n  ")
