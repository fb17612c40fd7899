"""C compilers, flags, objects on disk, and builds in the background."""
