"""Running a vendor's Python files without most of what they import: stand-ins for modules that are not there.

Files of an inference engine import the whole engine, and kernels that only a GPU has. :class:`StandIns` imports the
files that are wanted, as they are; every other module of the packages concerned is a stand-in, whose attributes are
those given for it, or else :class:`Absent`, which can be imported and named but not used. So what a file really needs
shows at once, and is either one of the files or said in one table.

Nothing is left behind: the modules are in ``sys.modules`` only while :meth:`StandIns.present` is open.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

__all__ = ["Absent", "NotThere", "StandIns"]


class NotThere(RuntimeError):
    """Something was used for which there is a stand-in only; the text names it."""


class Absent:
    """What a file imports and does not need here: it has a name, and using it is a NotThere."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[()]:
        return ()

    def __getitem__(self, key: object) -> Absent:  # in annotations
        return self

    def __or__(self, other: object) -> Absent:
        return self

    __ror__ = __or__

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NotThere(f"{self._name} is only a stand-in here, and cannot be used")

    __call__ = __bool__ = __iter__ = __len__ = __int__ = __float__ = _refuse


class StandIns(MetaPathFinder, Loader):
    """The modules of some packages: ``files`` as they are, stand-ins for all others.

    Parameters
    ----------
    packages : collection of str
        Top-level packages whose modules are found here and nowhere else.
    files : mapping of str to Path
        Modules that are imported, with their files.
    given : mapping of str to mapping of str to object
        Attributes of stand-ins, by module.
    """

    def __init__(
        self, packages: Collection[str], files: Mapping[str, Path], given: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._packages = frozenset(packages)
        self._files = dict(files)
        self._given = given
        self._modules: dict[str, ModuleType] = {}

    def load(self, name: str) -> ModuleType:
        """Return a module of ``files``, imported by the first call."""
        with self.present():
            return importlib.import_module(name)

    @contextmanager
    def present(self) -> Iterator[None]:
        """Have the packages in ``sys.modules``, in place of installed ones; for one thread at a time."""
        hidden = self._take()
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            self._modules = self._take()
            sys.modules.update(hidden)

    def _take(self) -> dict[str, ModuleType]:
        """Take the packages out of ``sys.modules``."""
        names = [name for name in sys.modules if name.partition(".")[0] in self._packages]
        return {name: sys.modules.pop(name) for name in names}

    # ---- of a finder and a loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a file, or of a stand-in; None outside the packages."""
        if fullname.partition(".")[0] not in self._packages:
            return None
        if fullname in self._files:
            return spec_from_file_location(fullname, self._files[fullname])
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a stand-in."""
        return _StandIn(spec.name, self._given.get(spec.name, {}))

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a stand-in is made whole."""


class _StandIn(ModuleType):
    def __init__(self, name: str, given: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")
