"""What a module holds: parameters, buffers, submodules; their names, and walks over them.

Members live in three dictionaries, not among the attributes, so that a module knows them in the
order in which they came; `__getattr__` finds them when Python does not find an attribute.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from adjoint.core.errors import GradError, NameTaken
from adjoint.nn.parameter import is_buffer, is_parameter
from adjoint.tensor.nodes import Handle
from adjoint.tensor.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.nn.modules.module import Module

Found = TypeVar("Found")
Registration = Callable[["Module", str, Any], Any]

_KINDS = ("_parameters", "_buffers", "_modules")
# Global hooks, asked when a member is registered; what they return is registered instead.
_registration_hooks: dict[str, OrderedDict[int, Registration]] = {
    kind: OrderedDict() for kind in _KINDS
}


def register_module_parameter_registration_hook(hook: Registration) -> Handle:
    """Call `hook(module, name, parameter)` whenever any module gets a parameter."""
    return Handle(_registration_hooks["_parameters"], hook)


def register_module_buffer_registration_hook(hook: Registration) -> Handle:
    """Call `hook(module, name, buffer)` whenever any module gets a buffer."""
    return Handle(_registration_hooks["_buffers"], hook)


def register_module_module_registration_hook(hook: Registration) -> Handle:
    """Call `hook(module, name, submodule)` whenever any module gets a submodule."""
    return Handle(_registration_hooks["_modules"], hook)


class Members:
    """The members of a module, as attributes and under their names."""

    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    # -- registering ---------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Any) -> None:
        """Add a parameter under a name, or the name alone with None.

        >>> import adjoint as ad
        >>> module = ad.nn.Module()
        >>> module.register_parameter("weight", ad.nn.Parameter(ad.ones(2)))
        >>> module.weight.requires_grad
        True
        """
        self._check_name("register_parameter", "_parameters", name)
        if param is not None and not is_parameter(param):
            raise TypeError(
                f"register_parameter: {name!r} is a {type(param).__name__}; a module registers "
                "nn.Parameter(tensor) or None"
            )
        if param is not None and param.grad_fn is not None:
            raise _NotALeaf(
                f"register_parameter: {name!r} is the result of an operator; a parameter is a "
                "leaf. Compute it in forward() instead"
            )
        self._register("_parameters", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module and not learned, or its name alone with None.

        A buffer that is not `persistent` is left out of `state_dict()`.

        >>> import adjoint as ad
        >>> module = ad.nn.Module()
        >>> module.register_buffer("mean", ad.zeros(2))
        >>> list(module.state_dict())
        ['mean']
        """
        self._check_name("register_buffer", "_buffers", name)
        if tensor is not None and not _is_tensor_like(tensor):
            raise TypeError(
                f"register_buffer: {name!r} is a {type(tensor).__name__}; a buffer is a tensor "
                "or None"
            )
        self._register("_buffers", name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name, or the name alone with None.

        >>> import adjoint as ad
        >>> outer = ad.nn.Module()
        >>> outer.add_module("inner", ad.nn.Module())
        >>> [name for name, _ in outer.named_modules()]
        ['', 'inner']
        """
        self._check_name("add_module", "_modules", name)
        if module is not None and not isinstance(module, Members):
            raise TypeError(
                f"add_module: {name!r} is a {type(module).__name__}; a submodule is a Module or "
                "None"
            )
        self._register("_modules", name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """As `add_module`."""
        self.add_module(name, module)

    def _check_name(self, what: str, kind: str, name: str) -> None:
        """Raise unless a member of that kind may have that name."""
        if kind not in self.__dict__:
            raise AttributeError(
                f"{what}: a module has no members before Module.__init__() was called; call "
                "super().__init__() first"
            )
        if not isinstance(name, str):
            raise TypeError(f"{what}: a name is a string, got {type(name).__name__}")
        if not name or "." in name:
            raise NameTaken(f"{what}: {name!r} cannot be a name: it is empty or holds a '.'")
        if hasattr(self, name) and name not in self.__dict__[kind]:
            raise NameTaken(f"{what}: the module has an attribute {name!r} already")

    def _register(self, kind: str, name: str, value: Any) -> None:
        """Ask the global hooks, and put a member in its place."""
        for hook in list(_registration_hooks[kind].values()):
            instead = hook(self, name, value)  # type: ignore[arg-type]
            value = value if instead is None else instead
        self.__dict__[kind][name] = value

    # -- attributes ----------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_parameters" in own:  # written out: it is called for every use of a member
            members = own["_parameters"]
            if name in members:
                return members[name]
            members = own["_modules"]
            if name in members:
                return members[name]
            members = own["_buffers"]
            if name in members:
                return members[name]
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
        )

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        kind = _kind_of(value)
        if kind is None:
            kind = next((k for k in _KINDS if name in own.get(k, ())), None)
            if kind is None:
                object.__setattr__(self, name, value)
            elif value is None:
                self._register(kind, name, None)
            elif kind == "_buffers" and _is_tensor_like(value):
                self._register(kind, name, value)
            else:
                raise _unfit(kind, name, value)
            return
        if kind == "_buffers" and name in own.get("_parameters", ()):
            raise _unfit("_parameters", name, value)
        self._take(kind, name, value)

    def _take(self, kind: str, name: str, value: Any) -> None:
        """Register what was assigned, and forget what had the name before."""
        own = self.__dict__
        if kind not in own:
            raise AttributeError(
                f"{name!r} cannot be assigned before Module.__init__() was called; call "
                "super().__init__() first"
            )
        if kind == "_buffers":
            options = {} if value.persistent else {"persistent": False}
            self.register_buffer(name, value, **options)  # which subclasses may override
            return
        for place in (own, *(own[k] for k in _KINDS if k != kind)):
            place.pop(name, None)
        self._non_persistent_buffers_set.discard(name)
        if kind == "_parameters":
            self.register_parameter(name, value)
        else:
            self._register(kind, name, value)

    def __delattr__(self, name: str) -> None:
        own = self.__dict__
        kind = next((k for k in _KINDS if name in own.get(k, ())), None)
        if kind is None:
            object.__delattr__(self, name)
        else:
            del own[kind][name]
            self._non_persistent_buffers_set.discard(name)

    def __dir__(self) -> list[str]:
        own = self.__dict__
        members = (name for kind in _KINDS for name in own.get(kind, ()))
        names = {*dir(type(self)), *own, *members}
        return sorted(name for name in names if not name[:1].isdigit())

    # -- walks ---------------------------------------------------------------------------------

    def named_modules(
        self,
        memo: set[Any] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Module]]:
        """Walk over the module itself and everything below it, each with its path.

        >>> import adjoint as ad
        >>> net = ad.nn.Sequential(ad.nn.Module(), ad.nn.Sequential(ad.nn.Module()))
        >>> [name for name, _ in net.named_modules()]
        ['', '0', '1', '1.0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self  # type: ignore[misc]
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Walk over the module itself and everything below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Walk over the submodules directly below, each once, with their names."""
        seen: set[Any] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Walk over the submodules directly below, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Walk over members of the module, and of those below; each once, unless told so."""
        seen: set[Any] = set()
        alone: Any = [(prefix, self)]
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else alone
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Walk over the parameters with their paths; those of submodules too, if `recurse`.

        >>> import adjoint as ad
        >>> net = ad.nn.ParameterList([ad.zeros(1), ad.ones(1)])
        >>> [name for name, _ in net.named_parameters()]
        ['0', '1']
        """
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """Walk over the parameters; those of submodules too, if `recurse`."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Walk over the buffers with their paths; those of submodules too, if `recurse`."""
        return self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Walk over the buffers; those of submodules too, if `recurse`."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # -- by path -------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """Return the submodule at a path: `net.get_submodule("layers.0")`."""
        owner: Any = self
        for step in target.split(".") if target else ():
            if not hasattr(owner, step):
                raise AttributeError(f"{type(owner).__name__} has no attribute {step!r}")
            found = getattr(owner, step)
            if not isinstance(found, Members):
                raise AttributeError(f"{step!r} of {type(owner).__name__} is not a Module")
            owner = found
        return owner

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module in the place of the one at a path; `strict`: one must be there.

        >>> import adjoint as ad
        >>> net = ad.nn.Sequential(ad.nn.Module(), ad.nn.Module())
        >>> net.set_submodule("1", ad.nn.ModuleList())
        >>> net[1]
        ModuleList()
        """
        if not target:
            raise ValueError("set_submodule: the path of the submodule is empty")
        *steps, name = target.split(".")
        owner = self.get_submodule(".".join(steps))
        if strict and not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute {name!r}")
        if hasattr(owner, name) and not isinstance(getattr(owner, name), Members):
            raise AttributeError(f"{name!r} of {type(owner).__name__} is not a Module")
        if not isinstance(module, Members):
            raise ValueError(f"set_submodule: {type(module).__name__} is not a Module")
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Any:
        """Return the parameter at a path: `net.get_parameter("layers.0.weight")`."""
        return self._at(target, "_parameters", "parameter")

    def get_buffer(self, target: str) -> Any:
        """Return the buffer at a path."""
        return self._at(target, "_buffers", "buffer")

    def _at(self, target: str, kind: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute {name!r}")
        found = getattr(owner, name)
        # a parameter that is computed (nn.utils.parametrize) is an attribute of its class
        if owner.__dict__[kind].get(name) is None and not (
            kind == "_parameters" and is_parameter(found)
        ):
            raise AttributeError(f"{name!r} of {type(owner).__name__} is not a {what}")
        return found


class _NotALeaf(GradError, ValueError):
    """The result of an operator where a leaf is needed."""


def _is_tensor_like(value: Any) -> bool:
    """Whether a value is a tensor, or of a class that answers for tensors."""
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def _kind_of(value: Any) -> str | None:
    """Which members a value is among whatever its name is, or None."""
    if isinstance(value, Members):
        return "_modules"
    if isinstance(value, Tensor):
        return "_parameters" if is_parameter(value) else "_buffers" if is_buffer(value) else None
    return None


def _unfit(kind: str, name: str, value: Any) -> TypeError:
    wanted = {"_parameters": "nn.Parameter", "_buffers": "tensor", "_modules": "nn.Module"}[kind]
    return TypeError(
        f"cannot assign a {type(value).__name__} as {kind[1:-1]} {name!r}: it must be a {wanted} "
        "or None"
    )
