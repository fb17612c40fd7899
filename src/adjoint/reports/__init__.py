"""Reports on a function before it runs: what carries no derivative, and what a gradient keeps."""
