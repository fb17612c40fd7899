"""Branches, loops, callbacks and implicit functions, and their nodes in a graph."""
