"""Targets: the machines that the compiler writes programs for."""
