"""Normalizations in terms of smaller operators; float16 and bfloat16 are computed in float32.

`layers` go over the last dimensions, `batches` over samples, `groups` over channels.
"""
