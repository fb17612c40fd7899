"""Calls of operators: the functions written for rows, and the way of unusual calls."""
