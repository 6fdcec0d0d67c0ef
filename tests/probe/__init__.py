"""Tests of laws that are measured."""
