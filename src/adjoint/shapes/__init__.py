"""Shape and dtype rules beyond the archetypes: Specs in, Specs out, one file for each family."""
