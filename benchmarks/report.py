"""Results as Markdown, JSON and a plot."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import loaded, plot
from benchmarks.loaded import LoadedResult
from benchmarks.runner import Measured, Options, Result
from benchmarks.tools import TOOLS

RESULTS = Path(__file__).parent / "results"
OURS, EAGER, LIMIT = "adjoint", "adjoint eager", "limit"


def rivals(result: Result) -> dict[str, Measured]:
    """The other tools that gave the right answer."""
    return {
        t: m
        for t, m in result.tools.items()
        if t not in (OURS, EAGER, LIMIT) and m.gradient and not m.error
    }


def best_ratio(result: Result) -> float | None:
    """Our time over the best rival's."""
    ours, others = result.tools.get(OURS), rivals(result)
    if ours is None or ours.error or not others:
        return None
    return ours.gradient / min(m.gradient for m in others.values())


def quotient(result: Result, tool: str, other: str) -> float | None:
    """The time of one tool over that of another; None unless both were timed."""
    ours, theirs = result.tools.get(tool), result.tools.get(other)
    timed = ours and theirs and ours.gradient and theirs.gradient
    return ours.gradient / theirs.gradient if timed else None


def number(value: float | None, scale: float = 1.0) -> str:
    return "" if value is None else f"{value * scale:.3g}"


def rows(table: list[list[str]]) -> str:
    head, *body = table
    return "\n".join("| " + " | ".join(r) + " |" for r in (head, ["---"] * len(head), *body))


def cell(result: Result, tool: str) -> str:
    measured = result.tools.get(tool)
    if measured is None:
        return ""
    return "failed" if measured.error else number(measured.gradient, 1e3)


def times(results: list[Result], tools: tuple[str, ...]) -> str:
    """Milliseconds, and how we compare."""
    eagerly = [r for r in results if EAGER in r.tools]
    head = ["workload", *tools, "ours / best rival", "target", "ours / limit"]
    table = [[*head, "eager / torch"] if eagerly else head]
    for r in results:
        ends = [
            number(best_ratio(r)),
            "" if r.target is None else f"≤ {r.target:g}",
            number(quotient(r, OURS, LIMIT)),
        ]
        if eagerly:
            ends.append(number(quotient(r, EAGER, "torch")))
        table.append([f"{r.title}, {r.case}", *(cell(r, t) for t in tools), *ends])
    return rows(table)


def ratios(results: list[Result], tools: tuple[str, ...]) -> str:
    """Our time over each rival's: below 1 we are faster."""
    others = [t for t in tools if t not in (OURS, EAGER, LIMIT)]
    table = [["workload", *others]]
    found: dict[str, list[float]] = {t: [] for t in others}
    for r in results:
        ours, theirs = r.tools.get(OURS), rivals(r)
        if ours is None or ours.error:
            continue
        known = {t: ours.gradient / m.gradient for t, m in theirs.items()}
        for tool, ratio in known.items():
            found[tool].append(ratio)
        table.append([f"{r.title}, {r.case}", *(number(known.get(t)) for t in others)])
    means = [number(math.exp(sum(map(math.log, v)) / len(v))) if v else "" for v in found.values()]
    return rows([*table, ["**geometric mean**", *means]])


def costs(results: list[Result], tools: tuple[str, ...]) -> str:
    """Gradient over primal, seconds to compile, megabytes at the peak; by tool."""
    shown = [t for t in tools if t != LIMIT]
    table = [["workload", "", *shown]]
    for r in results:
        lines: dict[str, dict[str, str]] = {
            "gradient / primal": {},
            "compile (s)": {},
            "peak (MB)": {},
        }
        for tool, m in r.tools.items():
            if m.error:
                continue
            lines["gradient / primal"][tool] = number(m.gradient / m.primal) if m.primal else ""
            lines["compile (s)"][tool] = f"{m.compile:.2f}"
            lines["peak (MB)"][tool] = "" if m.peak is None else f"{m.peak / 1e6:.1f}"
        for i, (label, values) in enumerate(lines.items()):
            table.append(
                [
                    f"{r.title}, {r.case}" if i == 0 else "",
                    label,
                    *(values.get(t, "") for t in shown),
                ]
            )
    return rows(table)


def failures(results: list[Result]) -> str:
    lines = [
        f"- {r.title}, {r.case}: {tool}: {m.error}"
        for r in results
        for tool, m in r.tools.items()
        if m.error
    ]
    return "\n".join(["", "## Failures", "", *lines]) if lines else ""


def machine(options: Options) -> str:
    versions = []
    for tool in options.tools:
        package = TOOLS[tool].package
        if tool not in (OURS, LIMIT, "torch.compile"):
            versions.append(f"{package} {importlib.metadata.version(package)}")
    cores = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    clock = (
        "wall clock"
        if options.clock == "seconds"
        else "processor time, for a machine that is shared"
    )
    rounds = f"medians of {options.rounds} interleaved rounds"
    return f"{cores}; {', '.join(versions)}. {options.threads} thread(s), {rounds}, {clock}."


def markdown(results: list[Result], options: Options) -> str:
    tools = options.tools
    disturbed = sum(m.disturbed for r in results for m in r.tools.values())
    if options.clock == "processor":
        disturbed = 0  # it does not matter then
    parts = [
        "# Value and gradient, milliseconds",
        machine(options)
        + (f" {disturbed} samples were disturbed by other processes." if disturbed else ""),
        times(results, tools),
        "## Our time over each rival's\n\nBelow 1: adjoint is faster.",
        ratios(results, tools),
        "## Gradient over primal, compile time, memory",
        "Compile time: from the Python function to the first result, less a call. Peak: resident "
        "memory in a call above that of the data.",
        costs(results, tools),
        failures(results),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def loaded_markdown(results: list[LoadedResult], options: Options) -> str:
    """What a busy core costs each tool."""
    parts = [
        "# Value and gradient while one core is busy, milliseconds of single calls",
        f"{machine(options)} Another process computes on the last core. A slow-down is the median, "
        "or the mean, of the calls on the loaded machine over the fastest call; the last column is "
        "that of our medians over the best rival's.",
        rows(loaded.table(results)),
    ]
    return "\n\n".join(parts) + "\n"


def record(results: Sequence[Result | LoadedResult], options: Options) -> dict[str, Any]:
    return {"machine": machine(options), "results": [r.record() for r in results]}


def write(results: list[Result], options: Options, name: str) -> list[Path]:
    """Write benchmarks/results/<name>.{md,json,svg}."""
    svg = plot.bars(results, options)
    return write_texts(name, markdown(results, options), record(results, options), svg=svg)


def write_texts(name: str, text: str, values: dict[str, Any], **more: str) -> list[Path]:
    """Write benchmarks/results/<name>.{md,json} and further files, by their endings."""
    RESULTS.mkdir(exist_ok=True)
    texts = {"md": text, "json": json.dumps(values, indent=1, ensure_ascii=False), **more}
    for ending, content in texts.items():
        (RESULTS / f"{name}.{ending}").write_text(content, encoding="utf-8")
    return [RESULTS / f"{name}.{ending}" for ending in texts]
