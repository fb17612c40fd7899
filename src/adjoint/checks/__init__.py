"""Checks of the arguments of operators, by family: sizes, dtypes and dimensions without data.

Kernels, shape rules, batching rules and decompositions ask the same functions, so that an argument
that does not fit is refused in one sentence, whoever meets it first.
"""
