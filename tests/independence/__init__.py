"""Acceptance law, independence and reproducibility."""
