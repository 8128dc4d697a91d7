"""Tests of the kernels: compiled where a GPU is, else in Triton's interpreter on the CPU."""
