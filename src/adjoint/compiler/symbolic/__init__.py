"""Programs for symbolic sizes: one graph for all sizes, and the ties learned from calls."""
