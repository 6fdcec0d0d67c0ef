"""Tests of the verification rules."""
