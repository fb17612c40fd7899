"""The compiler: traced programs to fused native code. See `compiled.compile`."""

from adjoint.expressions.rows import check as check_c
