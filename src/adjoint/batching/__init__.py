"""Batching rules: how an operator runs on a whole batch at once, for `vmap`.

A row names its rule in the column `batch:`: by a word of `words.py`, where all that happens is that
the batch comes in front, or as `<family>.<function>` for a function of `batching/<family>.py`. Rows
that are pointwise, that create, that draw or that reduce have the rule of their archetype; rows
with a decomposition need none. Those that have one are faster with it: on four small samples the
decomposition takes 1.2 times (matrix products, pooling) to 20 times as long, in the mean twice.

A rule is called as `rule(batch, *arguments)`, one argument for each of the schema: batched tensors
have the batch in front, the others are as the user's code sees them, and `batch.has` says which are
which. It returns the results with the batch in front.

Rules use our operators only, never NumPy: they run one level below, where tensors may belong to
another transform.
"""
