"""Tests of running CUDA kernels on the CPU."""
