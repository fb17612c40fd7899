"""Handwritten-looking digits, drawn with strokes and distorted at random; nothing is downloaded."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

SIDE = 28  # pixels
Point = tuple[float, float]  # in the unit square, y downwards


def arc(x: float, y: float, wide: float, high: float, start: float, end: float) -> list[Point]:
    """An arc of an ellipse about (x, y); angles in turns, clockwise from the right."""
    count = max(3, math.ceil(10 * abs(end - start)))
    turns = [2 * math.pi * (start + (end - start) * i / count) for i in range(count + 1)]
    return [(x + wide * math.cos(t), y + high * math.sin(t)) for t in turns]


# Each digit is a list of strokes, each stroke a line through points.
STROKES: tuple[list[list[Point]], ...] = (
    [arc(0.5, 0.5, 0.22, 0.34, 0, 1)],
    [[(0.36, 0.3), (0.52, 0.16), (0.52, 0.84)]],
    [[*arc(0.5, 0.36, 0.2, 0.2, -0.5, 0.12), (0.3, 0.84), (0.72, 0.84)]],
    [[*arc(0.48, 0.33, 0.19, 0.17, -0.4, 0.25), *arc(0.48, 0.67, 0.22, 0.17, -0.25, 0.42)]],
    [[(0.62, 0.84), (0.62, 0.16), (0.28, 0.62), (0.76, 0.62)]],
    [[(0.7, 0.16), (0.36, 0.16), (0.33, 0.46), *arc(0.48, 0.62, 0.21, 0.21, -0.3, 0.4)]],
    [[(0.62, 0.16), (0.38, 0.42), *arc(0.5, 0.64, 0.19, 0.2, -0.5, 0.5)]],
    [[(0.28, 0.16), (0.72, 0.16), (0.44, 0.84)]],
    [arc(0.5, 0.32, 0.17, 0.16, 0.25, 1.25), arc(0.5, 0.67, 0.21, 0.18, -0.25, 0.75)],
    [[*arc(0.5, 0.36, 0.19, 0.2, 0, 1), (0.66, 0.6), (0.58, 0.84)]],
)


def segments(digit: int) -> Any:
    """Ends of the straight pieces of a digit, about its middle: shape (pieces, 2 ends, 2)."""
    pieces = [pair for stroke in STROKES[digit] for pair in pairwise(stroke)]
    return np.array(pieces) - 0.5


def distortions(draw: np.random.Generator, count: int) -> tuple[Any, Any]:
    """Random affine maps: matrices (turn, shear, scale) and shifts."""
    turn, shear = draw.normal(0, 0.15, count), draw.normal(0, 0.15, count)
    wide, high = draw.uniform(0.75, 1.15, count), draw.uniform(0.75, 1.1, count)
    cos, sin = np.cos(turn), np.sin(turn)
    rows = [[cos * wide, (cos * shear - sin) * high], [sin * wide, (sin * shear + cos) * high]]
    return np.moveaxis(np.array(rows), -1, 0), draw.uniform(-0.09, 0.09, (count, 2))


def drawn(digit: int, draw: np.random.Generator, count: int) -> Any:
    """`count` pictures of one digit, each distorted in its own way."""
    matrices, shifts = distortions(draw, count)
    pieces = segments(digit)
    wobble = draw.normal(0, 0.012, (count, *pieces.shape))
    ends = (pieces + wobble) @ matrices.transpose(0, 2, 1)[:, None] + shifts[:, None, None]
    start, along = ends[:, :, None, 0], (ends[:, :, 1] - ends[:, :, 0])[:, :, None]
    middle = (np.arange(SIDE) + 0.5) / SIDE - 0.5
    pixels = np.stack(np.meshgrid(middle, middle), -1).reshape(-1, 2)
    # The distance of each pixel to each piece, then to the nearest.
    away = pixels - start
    share = np.clip((away * along).sum(-1) / (along**2).sum(-1), 0, 1)
    distance = np.sqrt(((away - share[..., None] * along) ** 2).sum(-1).min(1))
    thickness = draw.uniform(0.025, 0.055, (count, 1))
    ink = np.clip((thickness - distance) * SIDE + 0.5, 0, 1)
    noise = draw.normal(0, 0.05, ink.shape)
    return np.clip(ink + noise, 0, 1).reshape(count, SIDE, SIDE).astype(np.float32)


def digits(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Pictures of shape (count, 1, 28, 28) with values from 0 to 1, and their labels, shuffled."""
    draw = np.random.default_rng(seed)
    labels = np.arange(count) % 10
    pictures = np.empty((count, SIDE, SIDE), np.float32)
    for start in range(0, count, 500):  # pieces of pictures that need little memory
        for digit in range(10):
            places = start + np.flatnonzero(labels[start : start + 500] == digit)
            pictures[places] = drawn(digit, draw, len(places))
    order = draw.permutation(count)
    return pictures[order, None], labels[order]
