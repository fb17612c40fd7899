"""Passes over graphs, one file each. A pass edits the graph that it is given, and returns it."""
