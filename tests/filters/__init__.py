"""Tests of the filters as samplers apply them: margins, formats, plugins that take logits, other people's code."""
