"""Samplers, a file each, and the registry that knows them by name."""
