"""What is claimed of verifying DDTree's drafts with SGLang's tree kernel, and what was measured of each claim.

    python -m cases.claims

prints the figures as a table in Markdown; ``cases/test_claims.py`` holds them to the verdicts of ``docs/claims.md``.
Every function here measures one claim on the vendor's kernels, and returns its figures.
"""

from .cost import Cost, verify_cost
from .decoding import batches_of_every_acceptance, commit_is_shared, sequences_decoded
from .orders import order_of_siblings, ties
from .steps import (
    accept_index_includes_the_root,
    filters_before_the_kernel,
    numbering_of_nodes,
    zeros_for_draft_probs,
)

__all__ = [
    "Cost",
    "accept_index_includes_the_root",
    "batches_of_every_acceptance",
    "commit_is_shared",
    "filters_before_the_kernel",
    "numbering_of_nodes",
    "order_of_siblings",
    "sequences_decoded",
    "ties",
    "verify_cost",
    "zeros_for_draft_probs",
]
