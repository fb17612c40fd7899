"""Reading and writing parts of tensors under vmap.

`along`: gather gets the batch as one more dimension of all its tensors. `lists`: if all samples
share the index tensors, the batch is a whole slice; otherwise the number of the sample is one more
index. `values`: results whose size depends on values are refused. `views`: slices, diagonals,
strides.
"""
