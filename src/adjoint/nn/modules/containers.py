"""Modules that hold modules, parameters or other values as a list or a dict does."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import groupby
from typing import Any, Self

from adjoint.core.source_lines import warn
from adjoint.nn.modules.module import Module, indented
from adjoint.nn.parameter import Parameter, is_parameter
from adjoint.tensor.tensor import Tensor

__all__ = [
    "Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential",
]  # fmt: skip


def _position(index: Any, length: int, what: str, *, end: bool = False) -> int:
    """An index as a number from 0; `end` allows the place after the last."""
    number = operator.index(index)
    if not -length <= number < length + end:
        raise IndexError(f"{what}: index {number} is out of range, there are {length} items")
    return number % length if number < 0 else number


class _ModuleSequence(Module):
    """What lists of modules share; the names of items are numbers unless others were given."""

    def _names(self) -> list[str]:
        return list(self._modules)

    def _items(self) -> list[Any]:
        return list(self._modules.values())

    def _renumber(self, items: Iterable[Any]) -> None:
        """Hold these modules, under the names '0', '1', …"""
        items = list(items)
        self._modules.clear()
        for number, module in enumerate(items):
            self.add_module(str(number), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __setitem__(self, index: int, module: Module) -> None:
        name = self._names()[_position(index, len(self), type(self).__name__)]
        setattr(self, name, module)

    def __delitem__(self, index: int | slice) -> None:
        items = self._items()
        if isinstance(index, slice):
            del items[index]
        else:
            del items[_position(index, len(self), type(self).__name__)]
        self._renumber(items)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Any]) -> Self:
        """Add several modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend needs modules in a row, got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove a module, or a slice of them, and return it."""
        found = self[key]
        del self[key]
        return found

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._sliced(index)
        return self._items()[_position(index, len(self), type(self).__name__)]

    def _sliced(self, index: slice) -> Any:
        raise NotImplementedError

    def __iadd__(self, modules: Iterable[Any]) -> Self:
        return self.extend(modules)


class Sequential(_ModuleSequence):
    """Modules that are called one after the other.

    They are given one by one, or in a dict with their names.

    >>> import adjoint as ad
    >>> net = ad.nn.Sequential(ad.nn.Sequential(), ad.nn.Sequential())
    >>> len(net), net(ad.tensor(1.0))
    (2, tensor(1.))
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        one = len(args) == 1 and isinstance(args[0], OrderedDict)
        named = args[0].items() if one else ((str(i), m) for i, m in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """Return the last module's result of the one before, and so on."""
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def _sliced(self, index: slice) -> Any:
        return type(self)(OrderedDict(list(self._modules.items())[index]))

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before the one at an index."""
        if not isinstance(module, Module):
            raise _NotAModule(f"Sequential.insert needs a module, got {type(module).__name__}")
        items = self._items()
        items.insert(_position(index, len(self), "Sequential.insert", end=True), module)
        self._renumber(items)
        return self

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"a Sequential is added to a Sequential, not {type(other).__name__}")
        return Sequential(*self, *other)

    def __iadd__(self, modules: Any) -> Self:
        if not isinstance(modules, Sequential):
            raise ValueError(f"a Sequential is added to a Sequential, not {type(modules).__name__}")
        return self.extend(modules)

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*self._repeated(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        for module in self._repeated(other)[len(self) :]:
            self.append(module)
        return self

    def _repeated(self, count: Any) -> list[Any]:
        if not isinstance(count, int):
            raise TypeError(f"a Sequential is multiplied by an int, not {type(count).__name__}")
        if count <= 0:
            raise ValueError(f"a Sequential is repeated at least once, got {count}")
        return self._items() * count


class _NotAModule(TypeError, AssertionError):
    """Something else where a module is needed; PyTorch asserts it."""


class ModuleList(_ModuleSequence):
    """A list of modules, whose members are the module's.

    >>> import adjoint as ad
    >>> layers = ad.nn.ModuleList([ad.nn.Sequential()])
    >>> layers.append(ad.nn.Sequential())
    ModuleList(
      (0-1): 2 x Sequential()
    )
    """

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _sliced(self, index: slice) -> Any:
        return type(self)(self._items()[index])

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the one at an index."""
        items = self._items()
        items.insert(index, module)
        self._renumber(items)

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """The text of the list, in which equal modules in a row stand once."""
        if not len(self):
            return f"{self._get_name()}()"
        lines: list[str] = []
        start = 0
        for text, equal in groupby(repr(module) for module in self):
            count = len(list(equal))
            number = f"({start}): " if count == 1 else f"({start}-{start + count - 1}): {count} x "
            lines.append(f"  {number}{indented(text)}\n")
            start += count
        return f"{self._get_name()}(\n{''.join(lines)})"


class ModuleDict(Module):
    """A dict of modules, whose members are the module's.

    >>> import adjoint as ad
    >>> heads = ad.nn.ModuleDict({"left": ad.nn.Sequential()})
    >>> heads["right"] = ad.nn.Sequential()
    >>> list(heads), "left" in heads
    (['left', 'right'], True)
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove a module and return it."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        """Return the names with the modules."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules of a mapping, or of pairs of a name and a module."""
        for key, module in _pairs("ModuleDict.update", modules):
            self[key] = module


def _pairs(what: str, given: Any) -> list[tuple[Any, Any]]:
    """The items of a mapping, or pairs in a row."""
    if not isinstance(given, Iterable):
        raise TypeError(f"{what} needs a mapping or pairs, got {type(given).__name__}")
    if isinstance(given, (Mapping, ModuleDict, ParameterDict)):
        return list(given.items())
    pairs: list[tuple[Any, Any]] = []
    for number, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{what}: item {number} is a {type(pair).__name__}, not a pair")
        listed = list(pair)
        if len(listed) != 2:
            raise ValueError(f"{what}: item {number} has {len(listed)} entries, a pair has 2")
        pairs.append((listed[0], listed[1]))
    return pairs


def _as_parameter(value: Any) -> Any:
    """A tensor as a parameter; anything else as it is."""
    return Parameter(value) if isinstance(value, Tensor) and not is_parameter(value) else value


def _described(name: Any, value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"({name}): Object of type: {type(value).__name__}"
    kind = "Parameter" if is_parameter(value) else "Tensor"
    size = "x".join(str(n) for n in value.shape)
    return f"({name}): {kind} containing: [{value.dtype} of size {size}]"


class ParameterList(Module):
    """A list of parameters; tensors become parameters, other values stay what they are.

    >>> import adjoint as ad
    >>> weights = ad.nn.ParameterList([ad.ones(2), ad.zeros(2, 3)])
    >>> weights
    ParameterList(
        (0): Parameter containing: [ad.float32 of size 2]
        (1): Parameter containing: [ad.float32 of size 2x3]
    )
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(self[i] for i in range(*index.indices(len(self))))
        return getattr(self, str(_position(index, len(self), "ParameterList")))

    def __setitem__(self, index: int, param: Any) -> None:
        name = str(_position(index, len(self), "ParameterList"))
        setattr(self, name, _as_parameter(param))

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add several values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend needs values in a row, got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def extra_repr(self) -> str:
        """Return a line for each value."""
        return "\n".join(f"  {_described(i, value)}" for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a ParameterList is not called; use its parameters")


class ParameterDict(Module):
    """A dict of parameters; tensors become parameters, other values stay what they are.

    >>> import adjoint as ad
    >>> weights = ad.nn.ParameterDict({"left": ad.ones(2)})
    >>> weights["right"] = ad.zeros(2)
    >>> [(name, p.requires_grad) for name, p in weights.items()]
    [('left', True), ('right', True)]
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(f"a ParameterDict has strings as keys, got {type(key).__name__}")
        return key

    def __getitem__(self, key: str) -> Any:
        name = self._attribute(key)
        if name not in self._keys:
            raise KeyError(key)
        return getattr(self, name)

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._attribute(key)
        setattr(self, name, _as_parameter(value))
        self._keys[name] = None

    def __delitem__(self, key: str) -> None:
        name = self._attribute(key)
        del self._keys[name]
        delattr(self, name)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return another dict of the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, which gets the default if it is new."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove a value and return it."""
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Any]:
        """Remove the last key with its value, and return both."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return another dict with these keys, which all have one value."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """Return the keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return the keys with their values."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add values of a mapping, in its order if it has one, or of pairs."""
        pairs = _pairs("ParameterDict.update", parameters)
        ordered = isinstance(parameters, (OrderedDict, ParameterDict))
        if isinstance(parameters, Mapping) and not ordered:
            pairs.sort()
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        """Return a line for each value."""
        return "\n".join(f"  {_described(key, value)}" for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a ParameterDict is not called; use its parameters")

    def __or__(self, other: Any) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: Any) -> ParameterDict:
        joined = other.copy()
        joined.update(self)
        return joined

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self


class Container(Module):
    """Modules under the names of keyword arguments: PyTorch's oldest container.

    >>> import adjoint as ad
    >>> issubclass(ad.nn.Container, ad.nn.Module)
    True
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warn("nn.Container: derive from nn.Module, or use nn.ModuleDict.", FutureWarning)
        for name, module in kwargs.items():
            self.add_module(name, module)
