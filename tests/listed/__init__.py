"""Faults and breakages that a gate must find, each with the suite standard."""
