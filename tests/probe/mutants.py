"""Faults planted in the vendor's kernel: each changes a few tokens of its source, in memory, before it is compiled."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    """A fault: ``find`` matches the source once and becomes ``put``."""

    find: str
    put: str

    def edit(self, text: str) -> str:
        """Return the source with the fault in it."""
        changed, count = re.subn(self.find, self.put, text)
        if count != 1:
            raise ValueError(f"{self.find!r} matches {count} times in the vendor's source, 1 is expected")
        return changed

    @property
    def as_edit(self) -> Callable[[str], str]:
        """The fault as an argument of the compilation."""
        return self.edit


MUTANTS = {
    "at-most": Mutant(r"coin < (prob_acc)", r"coin <= \1"),
    "roots-coin-at-the-end": Mutant(
        r"coin = uniform_samples_for_final_sampling\[bx\]", "coin = uniform_samples[bx * num_draft_tokens]"
    ),
    "residual-not-subtracted": Mutant(
        r"(draft_probs\[cur_prob_offset \+ draft_token_id\]) = [^;]*;", r"\1 = DType(0);"
    ),
    "sum-not-reset": Mutant(r"prob_acc = 0\.;", ";"),
    "one-draft-more": Mutant(r"(uint32_t j = 1; j) < (num_speculative_tokens)", r"\1 <= \2"),
    "one-draft-less": Mutant(r"(uint32_t j = 1; j) < (num_speculative_tokens)", r"\1 + 1 < \2"),
    "zero-mass-accepted": Mutant(r"if \(has_target_mass && ", "if ("),
}
"""The faults of a verifier that a hasty change could make, by name."""
