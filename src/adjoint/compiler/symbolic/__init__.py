"""Programs for every size: one graph with symbolic sizes, and what is learnt of calls."""
