"""Graphs of operators: traced from Python functions, printed as Python, differentiated, simplified."""
