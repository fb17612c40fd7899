"""Tests of sparse derivatives."""
