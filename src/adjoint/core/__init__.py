"""The ground under every layer: dtypes and promotion, shapes, pytrees, errors, configuration."""
