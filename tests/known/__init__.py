"""Tests of known findings and coin cases."""
