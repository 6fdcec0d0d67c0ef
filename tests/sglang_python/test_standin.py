"""Stand-ins for modules that are not there, around small files of this test's own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from harness.samplers.standin import Absent, NotThere, StandIns

WANTED = """
import engine.heavy as heavy
import other.thing
from engine.heavy import Base, Given, number
from engine.light import answer

class Derived(Base):
    x: Given[int] | None = None

def late():
    from engine.late import value
    return value + answer + number

def used():
    return heavy.model.forward(1)
"""


@pytest.fixture
def standins(tmp_path: Path) -> StandIns:
    (tmp_path / "wanted.py").write_text(WANTED)
    (tmp_path / "light.py").write_text("answer = 40")
    files = {"engine.deep.wanted": tmp_path / "wanted.py", "engine.light": tmp_path / "light.py"}
    return StandIns(("engine", "other"), files, {"engine.heavy": {"number": 1}, "engine.late": {"value": 1}})


def test_files_run_as_they_are_between_stand_ins(standins: StandIns) -> None:
    module = standins.load("engine.deep.wanted")
    assert module.number == 1
    assert module.answer == 40
    assert isinstance(module.Base, Absent)
    assert module.Derived.__bases__ == (object,)
    assert standins.load("engine.deep.wanted") is module
    with standins.present():
        assert module.late() == 42


def test_what_is_absent_is_named_when_it_is_used(standins: StandIns) -> None:
    module = standins.load("engine.deep.wanted")
    with pytest.raises(NotThere, match=r"engine\.heavy\.model\.forward is only a stand-in"):
        module.used()
    for use in (bool, int, float, len, iter):
        with pytest.raises(NotThere, match=r"engine\.heavy\.Base"):
            use(module.Base)


def test_nothing_is_left_behind(standins: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = ModuleType("engine")
    monkeypatch.setitem(sys.modules, "engine", installed)
    before, finders = dict(sys.modules), list(sys.meta_path)
    module = standins.load("engine.deep.wanted")
    with standins.present():
        assert sys.modules["engine"] is not installed
        assert sys.modules["engine.deep.wanted"] is module
    with pytest.raises(NotThere), standins.present():
        module.used()
    assert dict(sys.modules) == before
    assert sys.modules["engine"] is installed
    assert sys.meta_path == finders
    with pytest.raises(ModuleNotFoundError):
        module.late()


def test_an_error_in_a_file_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    before = dict(sys.modules)
    with pytest.raises(ZeroDivisionError):
        StandIns(("engine",), {"engine.broken": tmp_path / "broken.py"}, {}).load("engine.broken")
    assert dict(sys.modules) == before
