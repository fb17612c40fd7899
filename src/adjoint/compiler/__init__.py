"""The compiler: traced programs to fused native code. See `program.compile`."""
