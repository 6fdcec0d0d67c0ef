"""Tests of the tree builders."""
