"""Tests of the statistics of the gate."""
