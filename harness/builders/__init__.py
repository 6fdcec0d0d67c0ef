"""How drafters make their trees: DDTree's heap, EAGLE's expansion, DFlash's chain, and the encodings that they emit.

Each builder takes draft laws and returns a :class:`~harness.builders.weighted.WeightedTree`: the tree and the
cumulative log probability of each of its nodes under the draft.
"""

from __future__ import annotations

from .chain import argmax_chain, sampled_chain
from .ddtree import ddtree
from .eagle import EagleDraft, eagle
from .encoding import Links, links_of, lists_of
from .weighted import WeightedTree

__all__ = [
    "EagleDraft",
    "Links",
    "WeightedTree",
    "argmax_chain",
    "ddtree",
    "eagle",
    "links_of",
    "lists_of",
    "sampled_chain",
]
