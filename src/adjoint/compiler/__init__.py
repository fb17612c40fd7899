"""The compiler: traced programs to fused native code. See `compiled.compile`."""

from adjoint.compiler.c.texts import check as check_c
