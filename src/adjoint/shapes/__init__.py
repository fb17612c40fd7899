"""Shape and dtype rules beyond the archetypes: Specs in, Specs out, one file for each family.

A row with a decomposition has the types of that, unless its own rule says an error in the user's
words, or saves time: then both times stand in the row.
"""
