"""One text for many threads, with two headers: OpenCL C and CUDA C++."""
