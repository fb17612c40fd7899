"""`ad.onnx` can be imported and has nothing: graphs are exported as NumPy source and as C."""

from __future__ import annotations

from typing import NoReturn

from adjoint.absent import absent


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name)
