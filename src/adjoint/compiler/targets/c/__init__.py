"""C as the target language: loop programs, regions, calls of routines, threads."""
