"""State dicts: the parameters and persistent buffers of a module by path, and back.

A module saves and loads its own members alone (`_save_to_state_dict`, `_load_from_state_dict`,
which layers may override); `state_dict` and `load_state_dict` walk over the modules. The dict
carries `_metadata`: the `_version` of each module by its path.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from adjoint.core.errors import AdjointError, StateError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.nn.modules.members import Members
from adjoint.nn.parameter import Parameter, is_lazy, is_parameter
from adjoint.tensor.modes import no_grad
from adjoint.tensor.nodes import Handle
from adjoint.tensor.tensor import Tensor

Hook = Callable[..., Any]
EXTRA_STATE = "_extra_state"  # the key of what get_extra_state() returns
_ASSIGN = "assign_to_params_buffers"  # in a module's metadata while it loads by assignment


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` found too little and too much."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    __str__ = __repr__


class StateHooks:
    """The hooks of one module around saving and loading."""

    def __init__(self) -> None:
        # hook(module, prefix, keep_vars)
        self.before_saving: OrderedDict[int, Hook] = OrderedDict()
        # hook(module, state_dict, prefix, local_metadata)
        self.after_saving: OrderedDict[int, Hook] = OrderedDict()
        self.may_replace: dict[int, bool] = {}  # those whose result becomes the state dict
        # hook([module,] state_dict, prefix, local_metadata, strict, missing, unexpected, errors)
        self.before_loading: OrderedDict[int, Hook] = OrderedDict()
        self.with_module: dict[int, bool] = {}  # those that get the module, too
        # hook(module, incompatible_keys)
        self.after_loading: OrderedDict[int, Hook] = OrderedDict()


class States(Members):
    """Saving and loading of a module."""

    _version: int = 1  # of the state; raise it when a layer's state changes its form
    _state_hooks: StateHooks | None = None  # made when the first hook is registered

    def _own_state_hooks(self) -> StateHooks:
        if self._state_hooks is None:
            self._state_hooks = StateHooks()
        return self._state_hooks

    # -- hooks ---------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Hook) -> Handle:
        """Call `hook(module, prefix, keep_vars)` before the state of the module is saved."""
        return Handle(self._own_state_hooks().before_saving, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> Handle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after it was saved."""
        return Handle(self._own_state_hooks().after_saving, hook)

    def _register_state_dict_hook(self, hook: Hook) -> Handle:
        """As `register_state_dict_post_hook`; what the hook returns becomes the state dict."""
        hooks = self._own_state_hooks()
        return Handle(hooks.after_saving, hook, hooks.may_replace)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> Handle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before the module takes its part of a state dict."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Hook, with_module: bool = False) -> Handle:
        hooks = self._own_state_hooks()
        return Handle(hooks.before_loading, hook, *[hooks.with_module] * with_module)

    def register_load_state_dict_post_hook(self, hook: Hook) -> Handle:
        """Call `hook(module, incompatible_keys)` after the module took its part."""
        return Handle(self._own_state_hooks().after_loading, hook)

    @property
    def _state_dict_hooks(self) -> OrderedDict[int, Hook]:
        return self._own_state_hooks().after_saving

    @property
    def _state_dict_pre_hooks(self) -> OrderedDict[int, Hook]:
        return self._own_state_hooks().before_saving

    @property
    def _load_state_dict_pre_hooks(self) -> OrderedDict[int, Hook]:
        return self._own_state_hooks().before_loading

    @property
    def _load_state_dict_post_hooks(self) -> OrderedDict[int, Hook]:
        return self._own_state_hooks().after_loading

    # -- saving --------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """Return what else belongs to the state; override it together with `set_extra_state`."""
        raise StateError(
            f"{type(self).__name__} has no get_extra_state(): write it where set_extra_state is"
        )

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` returned; override both."""
        raise StateError(
            f"{type(self).__name__} has no set_extra_state(): write it where get_extra_state is"
        )

    def _overrides(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(States, name)

    def _persistent(self) -> Iterable[tuple[str, Any]]:
        """The members that belong to the state, with their names."""
        buffers = (
            item for item in self._buffers.items()
            if item[0] not in self._non_persistent_buffers_set
        )  # fmt: skip
        return (item for item in itertools.chain(self._parameters.items(), buffers)
                if item[1] is not None)  # fmt: skip

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put the module's own members into a state dict; submodules put theirs."""
        for name, member in self._persistent():
            destination[prefix + name] = member if keep_vars else member.detach()
        if self._overrides("get_extra_state"):
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(self, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return parameters and persistent buffers by path, sharing memory with the module.

        They are detached unless `keep_vars`. `destination` is a dict to put them into.

        >>> import adjoint as ad
        >>> dict(ad.nn.Sequential(ad.nn.ParameterList([ad.ones(2)])).state_dict())
        {'0.0': tensor([1., 1.])}
        """
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata: dict[str, Any] = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        hooks = self._state_hooks
        for hook in [] if hooks is None else list(hooks.before_saving.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for number, hook in [] if hooks is None else list(hooks.after_saving.items()):
            returned = hook(self, destination, prefix, metadata)
            if hooks is not None and number in hooks.may_replace:
                destination = destination if returned is None else returned
            elif returned is not None:
                raise StateError("state_dict: a post hook must return None")
        return destination

    # -- loading -------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy a state dict into the parameters and buffers of the module and those below.

        `strict`: every key must be there and be used. `assign`: take the tensors themselves.

        >>> import adjoint as ad
        >>> net = ad.nn.ParameterList([ad.zeros(2)])
        >>> net.load_state_dict({"0": ad.ones(2)})
        <All keys matched successfully>
        >>> net.state_dict()["0"]
        tensor([1., 1.])
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: needs a dict, got {type(state_dict).__name__}")
        loading = _Loading(state_dict, strict, assign)
        loading.load(self, loading.state, "")
        return loading.finish(type(self).__name__)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take the module's own members from a state dict; submodules take theirs."""
        hooks = self._state_hooks
        for number, hook in [] if hooks is None else list(hooks.before_loading.items()):
            module = (self,) if hooks is not None and number in hooks.with_module else ()
            hook(
                *module, state_dict, prefix, local_metadata, strict, missing_keys,
                unexpected_keys, error_msgs,
            )  # fmt: skip
        members = dict(self._persistent())
        with no_grad():
            for name, member in members.items():
                key = prefix + name
                if key not in state_dict:
                    missing_keys += [key] * strict
                    continue
                message = self._take_member(name, member, state_dict[key], key, local_metadata)
                error_msgs += [] if message is None else [message]
        extra = prefix + EXTRA_STATE
        if self._overrides("set_extra_state"):
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            else:
                missing_keys += [extra] * strict
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            unexpected_keys += self._unexpected(state_dict, prefix, members)

    def _unexpected(self, state_dict: Any, prefix: str, members: dict[str, Any]) -> list[str]:
        """The keys under a prefix that neither the module nor a submodule of it has."""
        found: list[str] = []
        for key in state_dict:
            if not key.startswith(prefix) or key == prefix + EXTRA_STATE:
                continue
            name, dot, _ = key[len(prefix) :].partition(".")
            if name not in (self._modules if dot else members):
                found.append(key)
        return found

    def _take_member(
        self, name: str, member: Any, given: Any, key: str, metadata: dict[str, Any]
    ) -> str | None:
        """Copy or assign one tensor; what is wrong with it, or None."""
        if not isinstance(given, Tensor):
            return f"{key}: a tensor is expected, the state dict holds a {type(given).__name__}"
        lazy = is_lazy(member)
        if lazy and is_lazy(given):
            return None
        if not lazy and member.ndim == 0 and given.shape == (1,):
            given = given[0]
        if not lazy and given.shape != member.shape:
            return (
                f"size mismatch for {key}: the state dict has {show(given.shape)}, the module "
                f"{show(member.shape)}"
            )
        assign = metadata.get(_ASSIGN, False)
        if member.is_meta and not given.is_meta and not assign:
            warn(
                f"load_state_dict: {key} is on the meta device and takes no values; "
                "use assign=True, or to_empty(device='cpu') first"
            )
        try:
            if assign:
                setattr(self, name, _assigned(member, given))
            else:
                member.copy_(given)
        except (AdjointError, ValueError, TypeError, RuntimeError) as error:
            return f"{key}: {error}"
        return None


def _assigned(member: Any, given: Any) -> Any:
    """A tensor of a state dict, as the parameter or buffer that it becomes."""
    if not is_parameter(member):
        return given
    if is_parameter(given):
        return given.requires_grad_(member.requires_grad)
    return Parameter(given, member.requires_grad)


def _by_child(state: Any, prefix: str) -> dict[str, Any]:
    """The entries of a state dict under a prefix, by the name of the submodule they belong to."""
    parts: dict[str, Any] = {}
    start = len(prefix)
    for key, value in state.items():
        name, dot, _ = key[start:].partition(".")
        if dot and key.startswith(prefix):
            parts.setdefault(name, OrderedDict())[key] = value
    return parts


class _Loading:
    """One `load_state_dict`."""

    def __init__(self, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> None:
        self.state: Any = OrderedDict(state_dict)
        self.metadata = getattr(state_dict, "_metadata", None)
        if self.metadata is not None:
            self.state._metadata = self.metadata
        self.strict, self.assign = strict, assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []

    def load(self, module: Any, state: Any, prefix: str) -> None:
        """Let a module take its part, and then those below it."""
        metadata = {} if self.metadata is None else self.metadata.get(prefix[:-1], {})
        if self.assign:
            metadata[_ASSIGN] = True
        module._load_from_state_dict(
            state, prefix, metadata, True, self.missing, self.unexpected, self.errors
        )
        parts = _by_child(state, prefix) if module._modules else {}
        for name, child in module._modules.items():
            if child is not None:
                self.load(child, parts.get(name, OrderedDict()), f"{prefix}{name}.")
        hooks = module._state_hooks
        for hook in [] if hooks is None else list(hooks.after_loading.values()):
            if hook(module, IncompatibleKeys(self.missing, self.unexpected)) is not None:
                raise StateError(
                    "load_state_dict: a post hook must return None; it changes the lists of keys "
                    "in place"
                )

    def finish(self, name: str) -> IncompatibleKeys:
        """The keys that did not fit, or an error where they had to."""
        errors = list(self.errors)
        if self.strict:
            for what, keys in (("Unexpected", self.unexpected), ("Missing", self.missing)):
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{what} key(s) in state_dict: {listed}.")
        if errors:
            lines = "".join(f"\n\t{error}" for error in errors)
            raise StateError(f"Error(s) in loading state_dict for {name}:{lines}")
        return IncompatibleKeys(self.missing, self.unexpected)
