"""Archetypes: the facts that a row gets by saying `like: pointwise`.

An archetype says how the shapes of the inputs make the shape of the result, how dtypes are
promoted before the kernel runs, and whether an in-place variant follows. Rows may refine it with
their own columns (`promote`, `shape`, `inplace`).
"""

from __future__ import annotations

from adjoint.core.records import record


@record
class Archetype:
    """Facts shared by a family of rows."""

    name: str  # "pointwise"
    shape: str = ""  # name of the generic shape rule: "broadcast", "reduce", "view"
    promotes: bool = False  # tensors and scalars are converted to one dtype before the kernel runs
    to_float: bool = False  # integers and booleans become the default float
    result: str = "same"  # dtype of the result: "same" as promoted, "bool"
    inplace: bool = False  # `name_` follows
    maps: bool = False  # `_foreach_sin` is `sin` of every entry of its lists


ARCHETYPES: dict[str, Archetype] = {
    a.name: a
    for a in (
        Archetype("none"),
        Archetype("pointwise", "broadcast", promotes=True, inplace=True),
        Archetype("pointwise_float", "broadcast", promotes=True, to_float=True, inplace=True),
        Archetype("comparison", "broadcast", promotes=True, result="bool", inplace=True),
        Archetype("reduction", "reduce"),
        Archetype("view", "view"),
        Archetype("inplace_view", "view"),
        Archetype("creation"),
        Archetype("foreach", inplace=True, maps=True),
    )
}

# Arguments that scale a term and take no part in type promotion.
NOT_PROMOTED = frozenset(("alpha", "beta", "value"))
