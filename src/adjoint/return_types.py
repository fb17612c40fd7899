"""`ad.return_types`: the classes of several results with names, one for each operator.

>>> import adjoint as ad
>>> isinstance(ad.tensor([2.0, 1.0]).sort(), ad.return_types.sort)
True
"""

from __future__ import annotations

from adjoint.core.errors import did_you_mean
from adjoint.core.returns import Results, results_class
from adjoint.ops.signatures import has_named_results
from adjoint.table import TABLE


def __getattr__(name: str) -> type[Results]:
    if name in TABLE:
        for overload in TABLE.overloads(name):
            schema = TABLE.row(name, overload).schema
            if has_named_results(schema):
                return results_class(name, tuple(r.name for r in schema.returns))
    raise AttributeError(f"adjoint.return_types has no {name!r}{did_you_mean(name, __dir__())}")


def __dir__() -> list[str]:
    return sorted({row.name for row in TABLE.rows() if has_named_results(row.schema)})
