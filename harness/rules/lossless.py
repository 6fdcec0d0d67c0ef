"""No rule claimed: only losslessness is tested, on trees of given drafts or on chains of drafts drawn from a draft law.

What is accepted is the sampler's own affair. Next tokens are tested given how often their prefix occurred; the laws
here plan how often that will be, as if drafts were accepted like those of sampler-match or rejection.
"""

from __future__ import annotations

from dataclasses import replace

from .matching import SAMPLER_MATCH
from .rejection import REJECTION

__all__ = ["NONE", "NONE_CHAIN"]

NONE = replace(SAMPLER_MATCH, name="none", lossless_only=True)
NONE_CHAIN = replace(REJECTION, name="none-chain", lossless_only=True)
