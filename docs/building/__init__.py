"""The site: pages of docs/, a page for every operator made from the table, checked links.

    stage.py      copies the pages, and files that they link to, into docs/_build/source
    facts.py      asks the library what there is to say about an operator
    formulas.py   prints a formula of the table as MathML
    pictures.py   draws a function and its first two derivatives as SVG
    operators.py  writes the pages of operators and families
    divergences.py   writes the page of differences from PyTorch
    certificates.py  writes the sections and the table of certificates
    charts.py     draws the tables of docs/benchmarks.md
    links.py      checks that every link of the site resolves
    conf.py       configures Sphinx
    extension.py  formulas, HTML that is not searched, a font
    reference.py  writes a page for every public module

Nothing here is imported by the library, and nothing that it writes is in git.
"""
