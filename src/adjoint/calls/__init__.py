"""Calls of operators: the functions generated for rows, and the slow path of unusual calls."""
