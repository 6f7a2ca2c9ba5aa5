"""Kernels as programs of warps: of 32 threads that run in step, as on a GPU.

    Kernel ──distribute──> the same for one thread of a warp ──emit──> an LLVM module, a function for each launch

Nothing here has run on a GPU. A simulator of warps runs the module on a CPU, for tests.
"""
