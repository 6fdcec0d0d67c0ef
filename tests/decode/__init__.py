"""Decoding of many steps."""
