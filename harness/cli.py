"""The command line, ``chitree``: one clear line for bad input, exit codes as the contract has them."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from . import __version__
from .commands.cases import cases
from .commands.law import law
from .commands.probe import probe
from .commands.report import report, write_reports
from .errors import ChitreeError, Unwritten, UsageError
from .packages import own_first

if TYPE_CHECKING:
    from .runfolder import Recorded

__all__ = ["main"]

DEBUG = "CHITREE_DEBUG"
"""A variable: 1 shows where chitree itself has failed."""
LATER = {
    "plan": "samples needed for a wanted bias and power",
    "zoo": "the gate against the library of broken and right samplers",
    "investigate": "confirm, localise, name and shrink a bias",
    "compare": "what changed between two runs",
    "engine": "a running OpenAI-compatible server as a black box",
    "simt": "compile, inspect, schedule and race-check CUDA kernels on the CPU",
}
"""Commands of the contract that are not there yet."""


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command line on ``arguments`` and return the exit code."""
    own_first()
    try:
        code = cli.main(list(arguments), prog_name="chitree", standalone_mode=False)
    except ChitreeError as error:
        click.echo(f"chitree: {error}", err=True)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else str(error))
        return 2
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "chitree"
        click.echo(f"{where}: {' '.join(error.format_message().split())} (see `{where} --help`)", err=True)
        return 2
    except click.Abort as stop:
        if isinstance(stop.__cause__, EOFError):
            return _internal(stop.__cause__, arguments)
        click.echo("; ".join(["chitree: interrupted", *getattr(stop.__cause__, "__notes__", [])]), err=True)
        return 130
    except Exception as error:
        return _internal(error, arguments)
    return code if isinstance(code, int) else 0


def _internal(error: Exception, arguments: Sequence[str]) -> int:
    """Say that chitree itself has failed, which is neither a bias nor bad input, and where."""
    if os.environ.get(DEBUG) == "1" or not {"-v", "--verbose"}.isdisjoint(arguments):
        traceback.print_exception(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    click.echo(f"chitree: internal error: {type(error).__name__}{': ' if text else ''}{text}{place}", err=True)
    more = [f"this is a fault of chitree, not of the sampler ({DEBUG}=1 shows more)", *getattr(error, "__notes__", [])]
    click.echo(f"chitree: {'; '.join(more)}", err=True)
    return 3


class _Commands(click.Group):
    """Commands whose output need not be read to the end; click would exit with code 1, which here means bias."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command; where nobody reads on, as with `| head`, it ends well."""
        try:
            return super().invoke(context)
        except BrokenPipeError:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


@click.group(cls=_Commands, epilog=f"Not there yet: {', '.join(LATER)}.")
@click.version_option(__version__, message="chitree %(version)s")
def cli() -> None:
    """Statistical correctness gate for speculative-decoding samplers.

    Exit codes: 0 passed, 1 bias found, 2 bad input, 3 a sampler could not run or broke.
    """


cli.add_command(cases)
cli.add_command(law)
cli.add_command(probe)
cli.add_command(report)


def _later(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    if value not in (None, False, ()):
        raise UsageError(f"{parameter.opts[0]} is not there yet in chitree {__version__}; leave it out")
    return value


class _Folder(click.Path):
    """The name of a folder, which is not empty: that would be the current one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            self.fail("expected the name of a folder, got ''", param, ctx)
        return super().convert(value, param, ctx)


@cli.command()
@click.option(
    "--sampler",
    "samplers",
    multiple=True,
    metavar="NAME|MODULE:ATTR|FILE.py:ATTR|all|all-cpu",
    help="Repeatable. Default: those of sglang-tree, reference and, on a GPU, sglang-tree-gpu with a case to run.",
)
@click.option("--case", "cases", multiple=True, metavar="GLOB|FILE.json", help="Repeatable. Default: the whole suite.")
@click.option("--suite", "suite_name", default="standard", show_default=True, metavar="smoke|standard|deep")
@click.option(
    "--alpha",
    default=1e-6,
    show_default=True,
    help="Probability that a correct sampler raises any alarm in the whole run.",
)
@click.option("--seed", default=0, show_default=True, help="Of every random stream.")
@click.option("--workers", type=int, default=None, help="Worker processes. Default: one a core.")
@click.option("--shrink", type=int, default=None, metavar="K", help="Take n / 2^K draws.")
@click.option(
    "--out",
    type=_Folder(path_type=Path, file_okay=False),
    default=None,
    help="Folder of the results, those in it are overwritten. Default: reports/out/<UTC time>.",
)
@click.option(
    "--budget", type=float, default=None, metavar="SECONDS", help="Take so many draws that the run keeps within."
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    default=None,
    metavar="DIR",
    help="Go on with the interrupted run in that folder, with its options.",
)
@click.option("--fail-fast", is_flag=True, help="End a sampler at its first biased case.")
@click.option("--strict", is_flag=True, help="Exit 1 on known findings too.")
@click.option("--executor", default=None, callback=_later, hidden=True)
@click.option("--poison", is_flag=True, help="Fill fresh memory with garbage, so that uninitialised reads show.")
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict line only.")
@click.option("-v", "--verbose", is_flag=True, help="Print the most deviating tokens of passing cases too.")
@click.pass_context
def gate(
    context: click.Context,
    /,
    samplers: tuple[str, ...],
    cases: tuple[str, ...],
    suite_name: str,
    alpha: float,
    seed: int,
    workers: int | None,
    shrink: int | None,
    out: Path | None,
    budget: float | None,
    resume: Path | None,
    fail_fast: bool,
    strict: bool,
    poison: bool,
    quiet: bool,
    verbose: bool,
    **_: Any,
) -> int:
    """Run cases against samplers, decide, and write the report."""
    from cases.catalogue import suite

    from .asked import samplers_asked, used_folder
    from .broken import broken_file
    from .display import Display
    from .gate import GateOptions
    from .gate import gate as run_gate
    from .results import EXIT_CODES
    from .supervisor import Limits

    if resume is not None:  # what is not given is as it was
        was = _resumed(resume, out)
        given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
        samplers = samplers if "samplers" in given else tuple(was.sampler)
        cases = cases if "cases" in given else tuple(was.case)
        suite_name = suite_name if "suite_name" in given else was.suite
        alpha = alpha if "alpha" in given else was.alpha
        seed = seed if "seed" in given else was.seed
        shrink = shrink if "shrink" in given else was.shrink
        budget = budget if "budget" in given else was.budget
        fail_fast, strict = fail_fast or was.fail_fast, strict or was.strict
        poison = poison or was.poison
    chosen = suite(suite_name)
    cores = len(os.sched_getaffinity(0))
    options = GateOptions(
        samplers=samplers_asked(samplers, chosen, cases),
        cases=cases,
        alpha=alpha,
        seed=seed,
        workers=cores if workers is None else workers,
        threads=cores,
        shrink=shrink,
        limits=Limits.from_environment(),
        budget=budget,
        fail_fast=fail_fast,
        strict=strict,
        resume=resume is not None,
        poison=poison,
    )
    options.check()
    display = Display(quiet=quiet, verbose=verbose)
    with used_folder(out if resume is None else resume) as folder:
        try:
            results = run_gate(chosen, replace(options, out=folder), display.progress)
        except Unwritten as error:
            if error.results is None:
                raise
            display.verdict(error.results, None)
            click.echo(f"chitree: {error}", err=True)
            return EXIT_CODES["biased" if error.results.verdict == "biased" else "broken"]
        except (Exception, KeyboardInterrupt) as error:
            error.add_note(f"what was judged so far is in {folder}")
            error.add_note(f"go on with: chitree gate --resume {shlex.quote(str(folder))}")
            raise
        finally:
            display.close()
    written = write_reports(results, folder)
    files = (broken_file(folder, found.name) for found in results.samplers)
    written += [f"broken: {file}" for file in files if file.exists()]
    display.verdict(results, folder, written)
    if strict and results.known:
        click.echo(f"--strict: {results.known} known finding{'s' * (results.known > 1)} seen")
        return EXIT_CODES["biased"]
    return results.exit_code


def _resumed(folder: Path, out: Path | None) -> Recorded:
    """Return the options of the run to go on with."""
    from .runfolder import recorded

    if out is not None and out.resolve() != folder.resolve():
        raise UsageError(f"--out {out}: a resumed run writes into its own folder, {folder}; leave --out away")
    return recorded(folder)


@cli.command()
@click.option("--install", default=None, callback=_later, hidden=True)
def samplers(**_: Any) -> int:
    """List every sampler known: whether it can run here, where, version, why not."""
    from .samplers.registry import SAMPLERS

    for known in SAMPLERS.values():
        why = known.unavailable()
        click.echo(f"{known.name}: {known.summary}")
        click.echo(f"  runs on {known.runs_on}; {f'cannot run here: {why}' if why else 'can run here'}")
        click.echo(f"  rules: {', '.join(known.claims.rules)}")
        click.echo(f"  versions: {', '.join(f'{name} {version}' for name, version in known.versions().items())}")
    return 0


@cli.command()
def fetch() -> int:
    """Bring and verify the vendor kernel sources; what is verified already is not brought again."""
    from .simt.wheels import fetch as bring

    sources = bring()
    for name, version in sources.versions.items():
        click.echo(f"{name} {version}: verified")
    return 0


def _add_later(name: str, summary: str) -> None:
    @cli.command(
        name, help=f"Not there yet: {summary}.", context_settings={"ignore_unknown_options": True}, hidden=True
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> int:
        raise UsageError(f"`chitree {name}` ({summary}) is not there yet in chitree {__version__}")


for _name, _summary in LATER.items():
    _add_later(_name, _summary)
