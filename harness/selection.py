"""What a command line names: globs of a suite's cases and case files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from .case import Case
from .casefile import SUFFIX, load
from .coincase import CoinGroup
from .decoys import surrounded
from .errors import UsageError
from .known import Excused
from .probegroup import ProbeGroup
from .samplers.base import Claims
from .stats.alpha import case_alpha
from .suite import Entry, SequenceEntry, Suite, SuiteGroup

__all__ = ["Selection", "find", "is_file", "select"]


@dataclass(frozen=True)
class Selection:
    """The cases that a run was asked for.

    Parameters
    ----------
    suite : Suite
        What runs: the named suite, the groups of the case files, or both where both were named.
    names : mapping of str to set of str
        The cases that are judged, by group; the others of their groups only share the calls.
    files : mapping of str to str
        The file of each case that comes from one.
    sizes : mapping of str to int
        Number of cases of each rule in the named suite.
    mixed : bool
        Both were named: cases of the suite and of files then have half of the run's alpha each.
    """

    suite: Suite
    names: Mapping[str, frozenset[str]]
    files: Mapping[str, str]
    sizes: Mapping[str, int]
    mixed: bool

    @property
    def rules(self) -> set[str]:
        """Rules of the cases that are judged."""
        return {entry.rule for entry in self.entries}

    @property
    def entries(self) -> list[Entry]:
        """Groups with a case that is judged, those of coin cases and those that are probed last."""
        return [entry for entry in self.suite.entries if entry.name in self.names]

    def groups(self, rules: Iterable[str]) -> list[SuiteGroup]:
        """Return the groups of these rules in which cases are judged."""
        return [entry for entry in self.suite.groups if entry.rule in rules and entry.name in self.names]

    def sequence_groups(self, rules: Iterable[str]) -> list[SequenceEntry]:
        """Return the groups of many steps of these rules in which cases are judged."""
        return [entry for entry in self.suite.sequences if entry.rule in rules and entry.name in self.names]

    def cases(self, rules: Iterable[str]) -> list[str]:
        """Return the names of the drawn cases of these rules that are judged, in the suite's order."""
        groups: list[SuiteGroup | SequenceEntry] = [*self.groups(rules), *self.sequence_groups(rules)]
        return [name for entry in groups for name in entry.names if name in self.names[entry.name]]

    def coin_groups(self, sampler: str, claims: Claims) -> list[CoinGroup | ProbeGroup]:
        """Return the groups of coin cases and those that are probed in which cases are judged, for these claims.

        Those of its rules, where all its randomness is the coins; of what verifiers need not take, only the groups of
        which a finding names the sampler. Where it draws its own drafts, these cannot be held, and nothing is probed.
        """
        if not claims.coins:
            return []
        entries: list[CoinGroup | ProbeGroup] = [*self.suite.coins]
        entries += [] if claims.own_drafts else self.suite.probes
        return [
            entry
            for entry in entries
            if entry.rule in claims.rules
            and entry.name in self.names
            and (not entry.outside or any(self.suite.known.naming(sampler, name) for name in entry.names))
        ]

    def coin_cases(self, sampler: str, claims: Claims) -> list[str]:
        """Return the names of the coin cases and of those probed that are judged, in the suite's order."""
        groups = self.coin_groups(sampler, claims)
        return [name for entry in groups for name in entry.names if name in self.names[entry.name]]

    def excused(self, sampler: str, versions: Mapping[str, str], case: str) -> Excused:
        """Return what is known of a case of the suite; of cases of files nothing is."""
        return Excused((), ()) if case in self.files else self.suite.known.of(sampler, versions, case)

    def narrowed(self, names: Iterable[str]) -> Selection:
        """Return the same with cases of these names judged alone; no share of alpha changes."""
        wanted = frozenset(names)
        return replace(self, names={group: some & wanted for group, some in self.names.items() if some & wanted})

    def alpha(self, case: str, rules: Iterable[str], run_alpha: float) -> float:
        """Return the share of a case: over the files for one from a file, else over the suite's cases of ``rules``."""
        cases = 1 if case in self.files else sum(self.sizes.get(rule, 0) for rule in rules)
        return case_alpha(self.alone(case, run_alpha), cases)

    def alone(self, case: str, run_alpha: float) -> float:
        """Return the run's alpha at which ``case``, named alone, has the share that it has here."""
        part = run_alpha / 2 if self.mixed else run_alpha
        return part / len(self.files) if case in self.files else part

    def argument(self, case: str) -> str:
        """Return what to name on a command line to select ``case``."""
        return self.files.get(case, case)


def is_file(name: str) -> bool:
    """Return True for the name of a case file, False for that of a case or a glob."""
    return name.endswith(SUFFIX)


def select(suite: Suite, names: Sequence[str], option: str = "--case ") -> Selection:
    """Return the cases of ``suite`` that match the globs among ``names``, and those of the files; no names: all.

    ``option`` is what errors put before a name.

    Raises
    ------
    UsageError
        Where a glob matches nothing, a file is malformed or named twice, or two cases have one name.
    """
    globs = [name for name in dict.fromkeys(names) if not is_file(name)]
    files = _load([name for name in names if is_file(name)], option)
    groups = tuple(_entry(suite, case) for case in files.values())
    mixed = bool(globs and files)
    if mixed:
        for path, case in files.items():
            if case.name in suite.all_names:
                raise UsageError(
                    f"{option}{path}: suite {suite.name} has a case of the name {case.name!r} too; rename that of the "
                    "file, or name files alone"
                )
    wanted = {name for glob in globs for name in _matching(suite, glob, option)} if names else set(suite.all_names)
    wanted.update(case.name for case in files.values())
    if files and not globs:
        whole = Suite(suite.name, groups, suite.seconds)
    else:
        whole = replace(suite, groups=(*suite.groups, *groups))
    judged = {entry.name: wanted.intersection(entry.names) for entry in whole.entries}
    return Selection(
        whole,
        {group: frozenset(some) for group, some in judged.items() if some},
        {case.name: path for path, case in files.items()},
        suite.sizes,
        mixed,
    )


def find(suite: Suite, name: str) -> Case:
    """Return the one case that ``name`` names: a case of ``suite``, or a glob that matches one case."""
    found = [name] if name in suite.all_names else _matching(suite, name, "")
    if len(found) > 1:
        some = ", ".join(found[:5])
        raise UsageError(f"{name!r} matches {len(found)} cases of suite {suite.name}, one is expected: {some}, ...")
    if suite.sequence_case(found[0]) is not None:
        raise UsageError(f"{found[0]!r} is a case of many steps, which is no single tree; `chitree law` gives its law")
    return suite.case(found[0])


def _entry(suite: Suite, case: Case) -> SuiteGroup:
    """Return a group of its own for a case: itself and decoys, of which nobody hears."""
    entry = SuiteGroup.of(surrounded(case), suite.draws(case.vocab, case.nodes))
    return replace(entry, names=(case.name,))


def _load(paths: Sequence[str], option: str) -> dict[str, Case]:
    """Read case files, which must be different ones with different names in them."""
    seen: set[Path] = set()
    files: dict[str, Case] = {}
    for path in paths:
        case = load(path)
        where = Path(path).resolve()
        if where in seen:
            raise UsageError(f"{option}{path}: the file is named twice")
        seen.add(where)
        for other, known in files.items():
            if known.name == case.name:
                raise UsageError(f"{option}{path}: its case has the name {case.name!r}, and so has that of {other}")
        files[path] = case
    return files


def _matching(suite: Suite, glob: str, option: str) -> list[str]:
    """Return the names of cases that match ``glob``, at least one."""
    found = [name for name in suite.all_names if fnmatchcase(name, glob)]
    if not found:
        close = difflib.get_close_matches(glob, suite.all_names, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(close)}? See" if close else "see"
        raise UsageError(
            f"{option}{glob!r} matches no case of suite {suite.name}; {hint} `chitree cases --suite {suite.name}`"
        )
    return found
