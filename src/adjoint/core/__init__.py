"""What every layer may use: dtypes and promotion, shapes, pytrees, errors, configuration."""
