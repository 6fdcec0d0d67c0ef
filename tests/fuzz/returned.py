"""What a verifier may return instead of a result, or raise: damaged at random, from a right result.

Everything here ends by itself and leaves its process as it was; what does not is in plugins.py.
"""

from __future__ import annotations

import array
import asyncio
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from harness import Request, Result
from harness.errors import UsageError

FIELDS = ("tokens", "lengths", "nodes")
MOST_ENTRIES = 10**6
"""Of a field that is damaged further; wide views of one number are not."""
Damage = Callable[[random.Random, Any, Request], Any]

NUMBERS = [0, 1, -1, -2, 2, 5, 127, 255, 256, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]
DTYPES = [
    *("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i8", ">i4", "f2", "f4", "f8", "g", "F", "D", "?", "O", "U3"),
    *("S2", "m8[s]", "M8[s]", "m8", "V8"),
]
ODDITIES: list[Any] = [
    *(None, True, 0, -1, 3, 10**30, 0.5, float("nan"), 1j, "", "tokens", "\ud800", b"\x00\xff", bytearray(8), ...),
    *([], [[]], [[], []], [None], [[1], [2, 3]], [[1, [2]]], [10**30], [[float("nan")]], ["a", 1], (), {}, {1: 2}),
    *(set(), range(10), object(), type, np, np.int64, np.int64(3), np.float32("nan"), np.array(3), np.zeros((0, 5))),
    *(np.zeros((2,) * 12, np.int64), np.zeros((4, 5, 6), np.int64), np.zeros(0, np.int64), memoryview(b"abcdefgh")),
    *(array.array("q", [1, 2, 3]), np.zeros(3, [("a\nb", "i8"), ("\ud800", "f4")]), np.datetime64("2020"), lambda: 1),
]

# ---- exceptions


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NoText(Exception):
    def __str__(self) -> Any:  # type: ignore[override]
        return 3


class OddText(str):
    def split(self, *_: Any) -> Any:  # type: ignore[override]
        raise KeyError("no words")


class OddlyWorded(Exception):
    def __str__(self) -> str:
        return OddText("some text")


class NoTrace(Exception):
    @property
    def __traceback__(self) -> Any:
        raise OSError("no trace")


class FalseTrace(Exception):
    __traceback__ = SimpleNamespace(tb_frame=None, tb_next=None)  # type: ignore[assignment]


class FalseClass(Exception):
    @property
    def __class__(self) -> Any:
        raise OSError("no class")


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise OSError("no name")


class OddlyNamed(type):
    @property
    def __name__(cls) -> Any:  # type: ignore[override]
        return 3


def nameless() -> BaseException:
    """Return an error whose class has no name to tell."""
    return Nameless("Error", (Exception,), {})("x")


def oddly_named() -> BaseException:
    """Return an error whose class has a number for a name."""
    return OddlyNamed("Error", (Exception,), {})("x")


def strange_name(name: str) -> BaseException:
    """Return an error of a class of this name."""
    return type(name, (Exception,), {})("x")


def recursion() -> BaseException:
    """Raise a RecursionError."""
    return recursion()


RAISED: list[Callable[[], BaseException]] = [
    *(ValueError, lambda: ValueError("a\nb\r\n\x1b[31m\x00c\u2028d"), lambda: ValueError("\ud800 \udcff"), TypeError),
    *(lambda: ValueError("x" * 10**6), lambda: KeyError(("a", 1)), MemoryError, lambda: OSError(13, "no", "file\n")),
    *(SystemExit, lambda: SystemExit(0), lambda: SystemExit("text"), KeyboardInterrupt, GeneratorExit, StopIteration),
    *(asyncio.CancelledError, AssertionError, lambda: ExceptionGroup("many", [ValueError("one"), KeyError("two")])),
    *(lambda: BaseExceptionGroup("all", [KeyboardInterrupt(), SystemExit(3)]), BaseException, Warning, EOFError),
    *(lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), TimeoutError, BrokenPipeError, recursion, ImportError),
    *(Wordless, NoText, OddlyWorded, NoTrace, FalseTrace, FalseClass, nameless, oddly_named, NotImplementedError),
    *(lambda: strange_name("a\nb"), lambda: strange_name("\ud800"), lambda: strange_name("x" * 5000)),
    *(lambda: UsageError("no such thing\nat all"), lambda: UsageError("\ud800" * 2000), FloatingPointError),
]


def raises(rng: random.Random) -> None:
    """Raise something, perhaps out of code without a file, or from something else."""
    error = rng.choice(RAISED)()
    how = rng.randrange(4)
    if how == 0:
        exec(compile("raise error", "no\nsuch \ud800 file\x1b" if rng.random() < 0.5 else "<string>", "exec"))
    if how == 1:
        try:
            raise ValueError("before")
        except ValueError as before:
            raise error from before
    raise error


# ---- objects in the place of arrays


class Raising:
    """Raises at whatever is done with it."""

    def __init__(self, rng: random.Random) -> None:
        self.__dict__["rng"] = rng

    def _raise(self, *_: Any, **__: Any) -> Any:
        raises(self.__dict__["rng"])

    __array__ = __len__ = __iter__ = __getitem__ = __index__ = __float__ = __getattr__ = _raise


class Arrays:
    """Says that it is an array, and gives something else."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.value


class Sized:
    """A sequence of a length of its own making."""

    def __init__(self, size: Any, value: Any) -> None:
        self.size, self.value = size, value

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, key: Any) -> Any:
        if key > 1000:  # some values have an item for every key
            raise IndexError(key)
        return self.value[key]


class Interface:
    """Has an array interface that is none."""

    def __init__(self, value: Any) -> None:
        self.__array_interface__ = value


class Detaches:
    """Has the methods of a tensor."""

    def __init__(self, dtype: Any, value: Any) -> None:
        self.dtype, self.value = dtype, value

    def detach(self) -> Any:
        return self

    cpu = detach

    def numpy(self) -> Any:
        return self.value


class Subclass(np.ndarray):
    """An array that raises at most of what is done with it."""

    def __array_finalize__(self, of: Any) -> None:
        pass

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("not with me")

    __lt__ = __ge__ = __getitem__ = __array_ufunc__ = __array_function__ = astype = _raise  # type: ignore[assignment]


class Detached(list):
    detach = 3


def as_object(rng: random.Random, value: Any, request: Request) -> Any:
    """Wrap a field in an object that answers in odd ways."""
    odd = rng.choice(ODDITIES)
    interface = {"shape": (3,), "typestr": "<i8", "version": 3, "data": b"x"}
    made: list[Callable[[], Any]] = [
        *(lambda: Raising(rng), lambda: Arrays(value), lambda: Arrays(odd), lambda: Sized(len(value), value)),
        *(lambda: Sized(10**18, value), lambda: Sized(-1, value), lambda: Sized("x", value), lambda: Sized(3, odd)),
        *(lambda: Interface(odd), lambda: Interface(interface), lambda: Interface({**interface, "shape": (-1, 3)})),
        *(lambda: Detaches(odd, value), lambda: Detaches("torch.int64", odd), lambda: Detaches("torch.bfloat16", 1)),
        *(lambda: Detached([1, 2]), lambda: np.asarray(value).view(Subclass), lambda: Raising(rng)._raise),
        *(lambda: np.ma.masked_array(value, value == value), lambda: (x for x in value)),
        lambda: np.matrix(value) if value.ndim == 2 else value,
    ]
    return rng.choice(made)()


def as_tensor(rng: random.Random, value: Any, request: Request) -> Any:
    """Return a field as a tensor of some kind; as a list where torch is not there."""
    try:
        import torch
    except ImportError:
        return value.tolist()
    tensor = torch.from_numpy(np.ascontiguousarray(value))
    kinds: list[Callable[[], Any]] = [
        *(lambda: tensor, lambda: tensor.int(), lambda: tensor.to(torch.uint8), lambda: tensor.bool(), tensor.double),
        *(lambda: tensor.to(torch.bfloat16), lambda: tensor.half(), lambda: tensor.to(torch.complex64).conj()),
        *(lambda: tensor.to("meta"), lambda: tensor.to_sparse(), lambda: tensor.float().requires_grad_()),
        *(lambda: tensor.expand(3, *tensor.shape), lambda: tensor[:0], lambda: tensor.t() if tensor.ndim == 2 else 3),
        *(lambda: torch.quantize_per_tensor(tensor.float(), 1.0, 0, torch.quint8), lambda: torch.nn.Linear(2, 2)),
        *(lambda: list(tensor), lambda: [tensor, tensor], lambda: torch.tensor(3), lambda: tensor.to(torch.int16)),
    ]
    return rng.choice(kinds)()


# ---- arrays


def as_dtype(rng: random.Random, value: Any, request: Request) -> Any:
    """Return a field in another dtype."""
    return value.astype(np.dtype(rng.choice(DTYPES)))


def reshaped(rng: random.Random, value: Any, request: Request) -> Any:
    """Return a field in another shape or layout."""
    wide = (len(value), 10**12)
    shapes: list[Callable[[], Any]] = [
        *(lambda: value[..., None], lambda: value[None], lambda: value[:-1], lambda: value[..., :-1], value.ravel),
        *(lambda: value.T, lambda: value.T.copy().T, lambda: value[::-1], lambda: np.concatenate([value, value])),
        *(lambda: value[..., :0], lambda: value[:0], lambda: value[0], lambda: value.reshape((1,) * 20 + value.shape)),
        *(lambda: np.broadcast_to(np.int64(1), wide), lambda: np.broadcast_to(np.float32("nan"), wide)),
        *(lambda: np.broadcast_to(value, (3, *value.shape)), lambda: value[:, ::-1] if value.ndim == 2 else value),
        *(lambda: np.frombuffer(b"\0" + value.tobytes(), np.int8)[1:].view(np.int64).reshape(value.shape)),
        *(lambda: value.tolist(), lambda: tuple(map(tuple, value)) if value.ndim == 2 else tuple(value)),
        *(lambda: [*value.tolist()[:-1], [1]], lambda: list(value), lambda: [*value.tolist(), 10**30]),
    ]
    made = rng.choice(shapes)()
    if isinstance(made, np.ndarray) and made.size and rng.random() < 0.2:
        made = made.view()
        made.flags.writeable = False
    return made


def cell(rng: random.Random, value: Any, request: Request) -> Any:
    """Put a number into some cells."""
    number = rng.choice([*NUMBERS, request.vocab, request.nodes, request.depth_limit, request.depth_limit + 1])
    out = np.array(value)
    for _ in range(rng.choice([1, 1, 3])):
        out[tuple(rng.randrange(size) for size in out.shape)] = number
    return out


def filled(rng: random.Random, value: Any, request: Request) -> Any:
    """Fill the field with one number, with noise, or with NaN."""
    return rng.choice(
        [
            lambda: np.full_like(value, rng.choice(NUMBERS)),
            lambda: np.full(value.shape, rng.choice([np.nan, np.inf, -0.0, 1e300])),
            lambda: np.random.default_rng(rng.random().hex().__hash__() % 2**32).integers(-2, 9, value.shape),
            lambda: np.frombuffer(rng.randbytes(value.nbytes), np.int64).reshape(value.shape),
        ]
    )()


def widened(rng: random.Random, value: Any, request: Request) -> Any:
    """Return a field with more columns."""
    columns = rng.choice([1, 2, 7, 300, 5000])
    padding = [(0, 0)] * (value.ndim - 1) + [(0, columns if value.ndim == 2 else 0)]
    return np.pad(value, padding, constant_values=rng.choice([-1, 0, 1, 99, -(2**63)]))


def shuffled(rng: random.Random, value: Any, request: Request) -> Any:
    """Return what other rows or columns of the field have."""
    order = list(range(len(value)))
    rng.shuffle(order)
    return value[order] if rng.random() < 0.5 else np.roll(value, rng.choice([-1, 1]), axis=value.ndim - 1)


def odd(rng: random.Random, value: Any, request: Request) -> Any:
    """Return something else altogether."""
    return rng.choice(ODDITIES)


def right(rng: random.Random, value: Any, request: Request) -> Any:
    """Leave the field as it is."""
    return value


DAMAGES: list[Damage] = [right, as_dtype, reshaped, cell, cell, filled, widened, shuffled, odd, as_object, as_tensor]

# ---- whole results


class Lazy:
    """A result whose fields are worked out when they are asked for, and raise, or change with every look."""

    def __init__(self, rng: random.Random, fields: dict[str, Any]) -> None:
        self._rng, self._fields = rng, fields

    def __getattr__(self, name: str) -> Any:
        if name not in FIELDS:
            raise AttributeError(name)
        if self._rng.random() < 0.3:
            raises(self._rng)
        return None if self._rng.random() < 0.2 else self._fields[name]


def longer(rng: random.Random, fields: dict[str, Any], request: Request) -> dict[str, Any]:
    """Return fields of steps that are longer than they may be, all along existing rows."""
    columns = rng.choice([1, 2, 40, 3000])
    tokens = np.pad(fields["tokens"], ((0, 0), (0, columns)), constant_values=rng.randrange(request.vocab))
    some = np.array([rng.random() < 0.5 for _ in tokens])
    lengths = np.where(some, tokens.shape[1], fields["lengths"])
    tokens = np.where((tokens < 0) & some[:, None], 0, tokens)
    return {**fields, "tokens": tokens, "lengths": lengths, "nodes": None}


def returned(rng: random.Random, request: Request, result: Result[Any]) -> Any:
    """Return what a verifier might, or raise, given the ``result`` that is right for ``request``."""
    how = rng.randrange(20)
    if how <= 2:
        raises(rng)
    if how == 3:
        return rng.choice([*ODDITIES, Result, Result(None, None), (result.tokens, result.lengths), vars(result)])
    fields = {name: np.array(getattr(result, name)) for name in FIELDS}
    if how == 4:
        fields = longer(rng, fields, request)
    elif how > 5:
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            name = rng.choice(FIELDS)
            value = fields[name]
            if isinstance(value, np.ndarray) and value.ndim and 0 < value.size < MOST_ENTRIES:
                try:
                    fields[name] = rng.choice(DAMAGES)(rng, value, request)
                except (ValueError, TypeError, IndexError, OverflowError):  # two damages that do not go together
                    continue
    if rng.random() < 0.4:
        fields["nodes"] = None
    if rng.random() < 0.1:
        return Lazy(rng, fields)
    return SimpleNamespace(**fields) if rng.random() < 0.2 else Result(**fields)
