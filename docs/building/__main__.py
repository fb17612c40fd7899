"""Builds the site into docs/_build/html: `make docs`, or `python -m docs.building`.

`python -m docs.building tanh sum` builds it with the pages of these operators alone, to look at.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sphinx.cmd.build import build_main

from adjoint.testing.certificates import ledger
from docs.building import certificates, charts, facts, links, operators, reference, stage

BUILD = stage.DOCS / "_build"
SOURCE, SITE = BUILD / "source", BUILD / "html"


def main() -> int:
    start = time.perf_counter()
    folder = stage.Folder(SOURCE)
    stage.stage(folder)
    names = sys.argv[1:]
    found = facts.some(names) if names else facts.everything(BUILD)
    said(start, f"facts of {len(found)} operators")
    operators.write(found, ledger.read(certificates.LEDGER), folder)
    for path, text in reference.Reference(found).pages():
        folder.write(SOURCE / path, text)
    benchmarks = (stage.DOCS / "benchmarks.md").read_text(encoding="utf-8")
    folder.write(SOURCE / "benchmarks.md", charts.with_chart(benchmarks))
    folder.write(SITE / charts.PICTURE, charts.chart(benchmarks))
    said(start, "pages of operators")
    folder.sweep()
    here = str(Path(__file__).parent)
    status = build_main(["-q", "-W", "--keep-going", "-b", "html", "-c", here, "-d",
                         str(BUILD / "doctrees"), str(SOURCE), str(SITE)])  # fmt: skip
    said(start, "site")
    wrong = links.broken(SITE)
    for line in wrong[:50]:
        print(line, file=sys.stderr)
    said(start, f"links: {len(wrong)} broken")
    print(f"{SITE / 'index.html'}")
    return status or bool(wrong)


def said(start: float, what: str) -> None:
    print(f"{time.perf_counter() - start:6.1f} s  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
