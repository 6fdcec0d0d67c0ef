"""Tests of the main job: the command line, isolation of samplers, verdicts and reports."""
