"""C as the target language: expressions, functions, building and loading."""
