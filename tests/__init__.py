"""The tests of adjoint."""
