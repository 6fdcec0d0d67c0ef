"""Tests of SGLang's own Python around its kernels."""
