"""The compiler: traced programs to fused native code. See `compiled.compile`."""
