"""Tests of the pytest plugin and of harness.check()."""
