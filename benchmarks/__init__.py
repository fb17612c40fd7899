"""`python -m benchmarks` compares compiled gradients with other tools; see docs/benchmarks.md."""
