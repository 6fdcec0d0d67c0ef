"""Tests of samplers that draw their own drafts."""
