"""Branches, loops, callbacks and implicit functions, and the regions that stand for them in a
graph.
"""
