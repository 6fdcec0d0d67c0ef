"""A verifier that code hands over as an object: its name where a worker can import it, else a file that holds it."""

from __future__ import annotations

import importlib
import inspect
import io
import os
import pickle
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import UsageError

__all__ = ["get_given", "importable_name", "put_given", "shown_name"]

_MAIN = "__main__"


def importable_name(verifier: object) -> str | None:
    """Return MODULE:ATTR or FILE.py:ATTR of a class or function, None where there is no such name for it."""
    if not inspect.isclass(verifier) and not inspect.isfunction(verifier):
        return None
    module, attribute = verifier.__module__, verifier.__qualname__
    if _attribute(sys.modules.get(module), attribute) is not verifier:
        return None
    where = _main() if module == _MAIN else _where(module)
    return None if where is None else f"{where}:{attribute}"


def shown_name(verifier: object) -> str:
    """Return a name to show for a verifier that cannot be named on a command line."""
    kind = verifier if hasattr(verifier, "__qualname__") else type(verifier)
    where = os.path.basename(_main() or "") if kind.__module__ == _MAIN else kind.__module__
    return f"{where or 'interactive'}:{kind.__qualname__}{'' if kind is verifier else '()'}"


def put_given(verifier: object, file: Path) -> None:
    """Write a verifier to a file, pickled, for the worker that is to use it."""
    main = _main()
    try:
        data = pickle.dumps(verifier, pickle.HIGHEST_PROTOCOL)
        why = "its class belongs to an interactive session" if main is None and _MAIN.encode() in data else None
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if why is not None:
        data = _by_value(verifier, why)
    file.write_bytes(pickle.dumps({"main": main, "verifier": data}))


def get_given(file: str, from_file: Callable[[str], ModuleType]) -> Any:
    """Return a fresh copy of what :func:`put_given` wrote; ``from_file`` imports a script by its path."""
    with open(file, "rb") as stream:
        held = pickle.load(stream)
    main = held["main"]

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if module != _MAIN or main is None:
                return super().find_class(module, name)
            script = from_file(main) if main.endswith(".py") else importlib.import_module(main)
            return _attribute(script, name)

    return Unpickler(io.BytesIO(held["verifier"])).load()


def _by_value(verifier: object, why: str) -> bytes:
    """Return a pickle that holds the code of classes too, where a package for that is installed."""
    try:
        cloudpickle = importlib.import_module("cloudpickle")
    except ImportError:
        raise UsageError(
            f"verifier {shown_name(verifier)} cannot be handed to a process of its own ({why}); define its class at "
            "the top level of a file and give the class or a function that makes one, or install cloudpickle"
        ) from None
    data: bytes = cloudpickle.dumps(verifier)
    return data


def _main() -> str | None:
    """Return how another process imports what runs as __main__ here: a module, a file ending in .py, or None."""
    main = sys.modules.get(_MAIN)
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    if file is None or not file.endswith(".py") or not os.path.isfile(file):
        return None
    return _short(file)


def _where(module: str) -> str | None:
    """Return the name of a module where it is found by that name, its file where it is not."""
    file = getattr(sys.modules[module], "__file__", None)
    if file is None or _origin(module) == file:
        return module
    return _short(file) if file.endswith(".py") else None


def _origin(module: str) -> str | None:
    """Return the file that a fresh import of a module would run; sys.modules is not asked."""
    path, spec, parts = None, None, module.split(".")
    for i in range(len(parts)):
        name = ".".join(parts[: i + 1])
        finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, path, None) for finder in finders)), None)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec.origin if spec else None


def _short(file: str) -> str:
    """Return a path from the current folder where the file lies in it, else in full."""
    full = os.path.abspath(file)
    inside = os.path.commonpath([full, os.getcwd()]) == os.getcwd()
    return os.path.relpath(full) if inside else full


def _attribute(module: object, name: str) -> Any:
    return reduce(lambda found, part: getattr(found, part, None), name.split("."), module)
