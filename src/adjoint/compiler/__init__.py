"""The compiler: traced programs to fused native code. See `compiled.compile`."""

from adjoint.elements.language import check as check_c
