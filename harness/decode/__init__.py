"""Many steps: a synthetic target decoded with draft trees, a verifier, one commit, and a KV cache that is read back.

A single step can be right and decoding wrong: noise that comes again, buffers that are not reset, a commit that is off
by one and a KV cache in the wrong order show in sequences only. The target is a Markov chain, so that the law of every
sequence is exact; start at :mod:`.decoder`.
"""

from .decoder import Decoded, Decoder, Parts
from .kvcache import PagedCache
from .sequences import SequenceCase, SequenceGroup, SequencePlan

__all__ = ["Decoded", "Decoder", "PagedCache", "Parts", "SequenceCase", "SequenceGroup", "SequencePlan"]
