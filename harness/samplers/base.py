"""What a sampler is to the harness: its claims, read from the attributes of the contract, and its origin."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..dtypes import DTYPES, Dtype
from ..errors import UsageError
from ..filters import SEMANTICS, Semantics
from ..request import Request
from ..rules import Rule, rule

__all__ = ["Claims", "Sampler", "Verifier", "misspelt"]


ATTRIBUTES = (
    *("name", "rule", "takes", "semantics", "coins", "thresholds", "greedy", "drafts", "max_vocab", "max_nodes"),
    *("dtype", "draft", "verify", "close"),
)
"""What a verifier can have, by the contract."""
CLOSE = 0.85
"""How alike a name must be to one of these, to be taken for a slip."""


class Verifier(Protocol):
    """The least that a verifier has; its other attributes have the defaults of :class:`Claims`."""

    def verify(self, request: Request) -> Any:
        """Return a :class:`harness.Result` for ``request``."""


@dataclass(frozen=True)
class Claims:
    """What a verifier says of itself.

    Parameters
    ----------
    rules : tuple of str
        The rules it is gated on; a plugin has one.
    takes : "probs" or "logits"
        What it reads of a request.
    coins : bool
        All its randomness is the coins of the request.
    thresholds, greedy : bool
        Whether it is run with thresholds below 1, and at temperature 0.
    max_vocab, max_nodes : int or None
        The largest V and N it takes.
    semantics : Semantics or None
        Of a sampler that takes logits: how it reads temperature, top-k, top-p and min-p.
    dtype : "float32", "float16" or "bfloat16"
        The format in which it gets law rows.
    own_drafts : bool
        It draws the drafts of its chains itself.
    chains : bool
        Of a built-in sampler: it takes chains alone, without padding and depth limit (:mod:`harness.chained`).
    """

    rules: tuple[str, ...]
    takes: str = "probs"
    coins: bool = False
    thresholds: bool = True
    greedy: bool = True
    max_vocab: int | None = None
    max_nodes: int | None = None
    semantics: Semantics | None = None
    dtype: Dtype = "float32"
    own_drafts: bool = False
    chains: bool = False

    @classmethod
    def of(cls, verifier: object) -> Claims:
        """Read the claims of a plugin; an unknown value of an attribute is a UsageError."""
        name = getattr(verifier, "rule", None)
        if name is None:
            name = "none-chain" if _flag(verifier, "drafts", False) else "none"
        if not isinstance(name, str):
            raise UsageError(f"rule must be a string or None, got {name!r}")
        takes = getattr(verifier, "takes", "probs")
        if takes not in ("probs", "logits"):
            raise UsageError(f"takes must be 'probs' or 'logits', got {takes!r}")
        semantics = _semantics(verifier)
        return cls(
            (rule(name).name,),
            takes,
            coins=_flag(verifier, "coins", False),
            thresholds=_flag(verifier, "thresholds", True),
            greedy=_flag(verifier, "greedy", True),
            max_vocab=_size(verifier, "max_vocab"),
            max_nodes=_size(verifier, "max_nodes"),
            semantics=semantics if takes == "logits" else None,
            dtype=_dtype(verifier),
            own_drafts=_own_drafts(verifier, rule(name)),
        )

    @classmethod
    def from_wire(cls, fields: Mapping[str, Any]) -> Claims:
        """Return the claims of these fields, as a worker sends them."""
        semantics = fields["semantics"]
        if semantics is not None:
            semantics = Semantics(**{**semantics, "order": tuple(semantics["order"])})
        return cls(**{**fields, "rules": tuple(fields["rules"]), "semantics": semantics})


def misspelt(verifier: object) -> list[str]:
    """Say of which attributes of a verifier's class the names are nearly those of claims, and so are not looked at."""
    found = []
    with contextlib.suppress(Exception):  # a class may do anything when it is looked at
        attributes = {name: value for kind in type(verifier).__mro__[-2::-1] for name, value in vars(kind).items()}
        for name, value in attributes.items():
            if name not in ATTRIBUTES and not name.startswith("_") and not callable(value):
                close = difflib.get_close_matches(name, ATTRIBUTES, n=1, cutoff=CLOSE)
                found += [f"{name} is not looked at; did you mean {close[0]}?"] if close else []
    return found


def _flag(verifier: object, name: str, default: bool) -> bool:
    value = getattr(verifier, name, default)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be True or False, got {value!r}")
    return value


def _semantics(verifier: object) -> Semantics:
    value = getattr(verifier, "semantics", "sequential")
    if isinstance(value, Semantics):
        return value
    if isinstance(value, str) and value in SEMANTICS:
        return SEMANTICS[value]
    raise UsageError(f"semantics must be one of {', '.join(map(repr, SEMANTICS))} or a Semantics, got {value!r}")


def _dtype(verifier: object) -> Dtype:
    value = getattr(verifier, "dtype", None)
    if value is None:
        return "float32"
    for known in DTYPES[1:]:
        if isinstance(value, str) and value == known:
            return known
    asked = " or ".join(map(repr, DTYPES[1:]))
    raise UsageError(f"dtype must be {asked}, or left out for float32, got {value!r}")


def _own_drafts(verifier: object, claimed: Rule) -> bool:
    value = getattr(verifier, "draft", None)
    if value is None:
        return False
    if not callable(value):
        raise UsageError(f"draft must be a method draft(request), or left out, got {value!r}")
    if claimed.shape != "chain" or not claimed.redraws:
        raise UsageError(
            f"draft is for chains whose drafts are drawn: rule rejection or block, or None with drafts = True; leave "
            f"it out under rule {claimed.name}"
        )
    return True


def _size(verifier: object, name: str) -> int | None:
    value = getattr(verifier, name, None)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise UsageError(f"{name} must be None or an integer >= 1, got {value!r}")
    return value


def _nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Sampler:
    """A sampler that the harness knows by name.

    Parameters
    ----------
    name : str
    summary : str
        One line for ``chitree samplers``.
    claims : Claims
    runs_on : "gpu", "cpu-simulated", "triton" or "cpu"
    make : callable
        Takes a rule, returns a fresh verifier; called in the worker.
    versions : callable
        Returns the exact versions of what is under test.
    unavailable : callable
        Returns why it cannot run here, or None.
    prepare : callable
        Done once before the first worker starts: downloads, compilation. Raises Unavailable.
    shrink : mapping of suite to k
        A slow sampler takes n / 2^k draws in that suite.
    workers : int or None
        The most worker processes that it runs in: on a GPU each has a context of its own. None: as many as a run has.
    """

    name: str
    summary: str
    claims: Claims
    runs_on: str
    make: Callable[[str], Verifier]
    versions: Callable[[], Mapping[str, str]] = dict
    unavailable: Callable[[], str | None] = _nothing
    prepare: Callable[[], None] = _nothing
    shrink: Mapping[str, int] = field(default_factory=dict)
    workers: int | None = None
