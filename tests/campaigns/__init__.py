"""Campaigns: random checks without end, each a program with a seed and a time (`make fuzz`)."""
