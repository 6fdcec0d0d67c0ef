"""Stand-in for a package of sglang."""
