"""Samplers by name, and plugins by MODULE:ATTR or FILE.py:ATTR."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..given import get_given
from .base import Claims, Sampler, Verifier, misspelt
from .reference import REFERENCE
from .sglang_dflash import SGLANG_DFLASH, SGLANG_DFLASH_TOP_K
from .sglang_eagle import SGLANG_EAGLE, SGLANG_EAGLE_SEEDS
from .sglang_tree import SGLANG_TREE, SGLANG_TREE_32
from .sglang_tree_gpu import SGLANG_TREE_GPU
from .sglang_tree_greedy import SGLANG_TREE_GREEDY
from .sglang_tree_port import SGLANG_TREE_PORT

__all__ = ["SAMPLERS", "Plugin", "is_plugin", "sampler"]

SAMPLERS: dict[str, Sampler] = {
    s.name: s
    for s in (
        SGLANG_TREE,
        SGLANG_TREE_32,
        SGLANG_TREE_GPU,
        SGLANG_TREE_PORT,
        SGLANG_TREE_GREEDY,
        SGLANG_EAGLE,
        SGLANG_EAGLE_SEEDS,
        SGLANG_DFLASH,
        SGLANG_DFLASH_TOP_K,
        REFERENCE,
    )
}
"""Built-in samplers, in the order in which they are listed."""
MOST_NAMES = 10


def is_plugin(name: str) -> bool:
    """Return True for MODULE:ATTR and FILE.py:ATTR."""
    return ":" in name


def sampler(name: str) -> Sampler:
    """Return the built-in sampler of this name; a UsageError lists those there are."""
    if name in SAMPLERS:
        return SAMPLERS[name]
    if "@" in name:
        raise UsageError(f"sampler {name!r}: a choice of versions (NAME@VERSION) is not there yet; leave @... out")
    raise UsageError(
        f"no such sampler: {name!r}; expected one of {', '.join(SAMPLERS)}, or a plugin as MODULE:ATTR or FILE.py:ATTR"
    )


class Plugin:
    """A user's verifier: a class, a zero-argument factory, or an instance, which is copied for each fresh use.

    Imports user code: made in a worker only. A module, file or attribute that is not there is a UsageError; what the
    user's own code raises passes through. ``given`` is a file that :func:`.given.put_given` wrote; the verifier in it
    is then what ``name`` stands for.
    """

    def __init__(self, name: str, given: str | None = None) -> None:
        self.name = name
        self.notes: list[str] = []
        if given is not None:
            self._make = _maker(name, get_given(given, from_file))
            return
        where, _, attribute = name.rpartition(":")
        if not where or not attribute or "\0" in name:
            raise UsageError(f"sampler {name!r}: expected MODULE:ATTR or FILE.py:ATTR")
        module = from_file(where) if where.endswith(".py") else _from_module(where)
        found: Any = module
        for part in attribute.split("."):
            if not hasattr(found, part):
                raise UsageError(f"sampler {name!r}: {where} has no attribute {attribute!r}; it has {_own(module)}")
            found = getattr(found, part)
        self._make = _maker(name, found)

    def make(self) -> Verifier:
        """Return a fresh verifier."""
        verifier: Verifier = self._make()
        if not callable(getattr(verifier, "verify", None)):
            got = type(verifier).__name__
            raise UsageError(f"sampler {self.name!r}: expected something with a method verify(request), got {got}")
        return verifier

    def claims(self) -> Claims:
        """Return what the verifier claims of itself; from then on ``notes`` has names that look like slips."""
        verifier = self.make()
        self.notes = misspelt(verifier)
        return Claims.of(verifier)


def _own(module: Any) -> str:
    """Return the names of what a module defines itself, not of what it imports."""
    names = [
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", module.__name__) == module.__name__
    ]
    some = ", ".join(sorted(names)[:MOST_NAMES])
    return f"{some}{', ...' if len(names) > MOST_NAMES else ''}" or "none"


def _maker(name: str, found: Any) -> Callable[[], Any]:
    if callable(getattr(found, "verify", None)) and not inspect.isclass(found):
        pristine = found
        return lambda: copy.deepcopy(pristine)
    if callable(found):
        return lambda: found()
    raise UsageError(
        f"sampler {name!r}: expected a class, an instance or a zero-argument factory of something with "
        f"verify(request), got {type(found).__name__}"
    )


def _from_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(
                f"no module named {name!r}; it is looked for on sys.path and in the current folder"
            ) from None
        raise


def from_file(path: str) -> Any:
    """Import a Python file as a module of a name of its own."""
    file = Path(path).resolve()
    if not file.is_file():
        raise UsageError(f"no such file: {path}")
    name = f"chitree_plugin_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported: a Python file ending in .py is expected")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.append(str(file.parent))
    spec.loader.exec_module(module)
    return module
