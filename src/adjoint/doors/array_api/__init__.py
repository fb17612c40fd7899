"""The door to the Python array API standard: a table, adapters, dtypes, Python's operators."""
