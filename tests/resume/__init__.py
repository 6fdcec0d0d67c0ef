"""Tests of runs that are ended early, and of going on with them."""
