"""The door to `jax.lax`: a table of names and signatures, and its words."""
