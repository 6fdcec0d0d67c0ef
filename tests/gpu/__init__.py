"""Tests of what runs on a GPU: natively where there is one, by stand-ins elsewhere."""
