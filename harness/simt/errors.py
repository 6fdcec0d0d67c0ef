"""Errors of the CUDA-on-CPU route; each names the thing, what was found, and the mend."""

from __future__ import annotations

from harness.errors import ChitreeError, Unavailable

__all__ = [
    "CompileError",
    "Deadlock",
    "HashMismatch",
    "KernelTrap",
    "PtxError",
    "UnknownInstruction",
]


class PtxError(ChitreeError):
    """PTX text that cannot be translated.

    Parameters
    ----------
    message
        What is wrong.
    line
        1-based line of the PTX text, 0 where there is none.
    text
        The offending statement.
    """

    def __init__(self, message: str, line: int = 0, text: str = "") -> None:
        self.line = line
        self.text = " ".join(text.split())
        where = f"PTX line {line}: " if line else ""
        what = f" in `{self.text}`" if self.text else ""
        super().__init__(f"{where}{message}{what}")


class UnknownInstruction(PtxError):
    """An opcode, modifier, special register or operand that the translator does not know; never guessed at."""


class CompileError(Unavailable):
    """NVRTC or the C compiler refused the source, or there is no compiler; the text holds its log."""


class HashMismatch(Unavailable):
    """A downloaded wheel is not the pinned one."""


class Deadlock(ChitreeError):
    """A block in which no thread can run and not all of them wait at the barrier."""

    exit_code = 3

    def __init__(self, kernel: str, block: int, at_barrier: int, waiting: int) -> None:
        self.block = block
        self.at_barrier = at_barrier
        self.waiting = waiting
        super().__init__(
            f"deadlock in block {block} of {kernel}: {at_barrier} threads wait at a barrier, {waiting} at a warp "
            "instruction whose mask names threads that never come, and no other thread is alive"
        )


class KernelTrap(ChitreeError):
    """A thread executed `trap`."""

    exit_code = 3

    def __init__(self, kernel: str, block: int) -> None:
        self.block = block
        super().__init__(f"trap in block {block} of {kernel}")
