"""What is no result is broken, and says so; what is merely wrong passes on to be judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Result
from harness.errors import ChitreeError
from harness.groups import Group
from harness.rules import RULES
from harness.validate import BrokenResult, Expected, emitted

from .build import groups, plan

quick = settings(max_examples=15, deadline=None)

# Rows of one tree: 0 -> 1 (token 5) -> 3 (token 2), 0 -> 2 (token 4); node 4 is padding; S = 3, V = 6.
ONE = Expected(
    candidates=np.tile([3, 5, 4, 2, 0], (3, 1)),
    parents=np.tile([-1, 0, 0, 1, -1], (3, 1)),
    node_count=np.array([4, 4, 4]),
    depth_limit=3,
    vocab=6,
)
TOKENS = np.array([[5, 2, 1], [4, 0, -1], [5, -1, -1]])
LENGTHS = np.array([3, 2, 1])
NODES = np.array([[0, 1, 3], [0, 2, -1], [0, -1, -1]])


def result(**changes: Any) -> Result[Any]:
    return Result(**{"tokens": TOKENS.copy(), "lengths": LENGTHS.copy(), "nodes": NODES.copy(), **changes})


def changed(array: np.ndarray, row: int, column: int, value: int) -> np.ndarray:
    out = array.copy()
    out[row, column] = value
    return out


def widened(array: np.ndarray, by: int, value: int = -1) -> np.ndarray:
    return np.pad(array, ((0, 0), (0, by)), constant_values=value)


# ---- results


def test_a_result_is_given_back() -> None:
    for given_nodes in (NODES, None):
        found = emitted(result(nodes=given_nodes), ONE)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, TOKENS)


@quick
@given(groups(), st.integers(0, 99))
def test_what_a_right_verifier_returns_is_a_result(group: Group, seed: int) -> None:
    request, _ = plan(group, 4, seed=seed).call(0)
    walked = RULES["target-only"].walk(request)
    np.testing.assert_array_equal(emitted(walked, Expected.of(request)), walked.tokens)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
def test_integers_of_any_kind(dtype: type[np.integer[Any]]) -> None:
    kinds = {name: getattr(result(), name).astype(dtype) for name in ("tokens", "lengths", "nodes")}
    found = emitted(Result(**kinds), ONE)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, TOKENS)


def test_lists_are_taken() -> None:
    lists = {name: getattr(result(), name).tolist() for name in ("tokens", "lengths", "nodes")}
    np.testing.assert_array_equal(emitted(Result(**lists), ONE), TOKENS)


def test_anything_with_the_fields_is_taken() -> None:
    np.testing.assert_array_equal(emitted(SimpleNamespace(tokens=TOKENS, lengths=LENGTHS), ONE), TOKENS)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_torch_tensors_are_taken(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    tensors = {name: torch.from_numpy(getattr(result(), name)).to(kind) for name in ("tokens", "lengths", "nodes")}
    np.testing.assert_array_equal(emitted(Result(**tensors), ONE), TOKENS)
    strided = torch.from_numpy(TOKENS.T.copy()).T
    np.testing.assert_array_equal(emitted(result(tokens=strided), ONE), TOKENS)
    np.testing.assert_array_equal(emitted(result(tokens=tensors["tokens"].view(3, 3)[:, :]), ONE), TOKENS)


def test_wider_arrays_are_taken() -> None:
    found = emitted(result(tokens=widened(TOKENS, 2), nodes=widened(NODES, 4)), ONE)
    np.testing.assert_array_equal(found[:, :3], TOKENS)
    assert (found[:, 3:] == -1).all()
    np.testing.assert_array_equal(emitted(result(nodes=widened(NODES, 1)), ONE), TOKENS)
    assert emitted(result(tokens=widened(TOKENS, 2)), ONE).shape == (3, 5)


@pytest.mark.parametrize("garbage", [0, 5, 77, -99, 2**40, -(2**62)])
def test_what_is_beyond_the_lengths_does_not_count(garbage: int) -> None:
    beyond = np.arange(4) >= LENGTHS[:, None]
    tokens = np.where(beyond, garbage, widened(TOKENS, 1))
    nodes = np.where(beyond, garbage, widened(NODES, 1))
    found = emitted(Result(tokens, LENGTHS, nodes), ONE)
    np.testing.assert_array_equal(found, np.where(beyond, -1, tokens))


def test_a_length_beyond_the_limit_is_judged_not_broken() -> None:
    tokens = np.array([[5, 2, 1, 0, -1], [4, 0, -1, -1, -1], [5, 1, 1, 1, 1]])
    found = emitted(Result(tokens, np.array([4, 2, 5])), ONE)
    np.testing.assert_array_equal(found, tokens)


def test_a_step_too_long_for_any_tree_is_cut() -> None:
    """S = 3, N = 5: six tokens show that it is too long; neither time nor memory goes by what an array claims."""
    wide = np.broadcast_to(np.int64(1), (3, 1 << 40))
    found = emitted(Result(wide, np.array([1 << 40, 1, 7])), ONE)
    np.testing.assert_array_equal(found, [[1] * 6, [1] + [-1] * 5, [1] * 6])


def test_a_path_beyond_the_limit_is_judged_not_broken() -> None:
    """S = 2 allows one draft; two were accepted along rows that exist."""
    limited = Expected(ONE.candidates, ONE.parents, ONE.node_count, 2, 6)
    np.testing.assert_array_equal(emitted(result(), limited), TOKENS)


def test_a_path_into_padding_is_judged_not_broken() -> None:
    tokens, nodes = changed(TOKENS, 1, 0, 0), changed(NODES, 1, 1, 4)
    np.testing.assert_array_equal(emitted(result(tokens=tokens, nodes=nodes), ONE), tokens)


def test_what_a_verifier_returns_is_copied() -> None:
    buffer = TOKENS.copy()
    found = emitted(result(tokens=buffer), ONE)
    buffer[:] = 0
    np.testing.assert_array_equal(found, TOKENS)
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(TOKENS.copy())
    found = emitted(result(tokens=tensor), ONE)
    tensor.zero_()
    np.testing.assert_array_equal(found, TOKENS)


def test_what_is_expected_survives_a_verifier_that_overwrites_its_request() -> None:
    from .test_groups import GROUP

    request, _ = plan(GROUP, 2).call(0)
    walked = RULES["target-only"].walk(request)
    expected = Expected.of(request)
    for array in (request.candidates, request.parents, request.node_count, request.target_probs):
        array[:] = -7
    np.testing.assert_array_equal(emitted(walked, expected), walked.tokens)
    assert (expected.vocab, expected.depth_limit) == (7, 4)


# ---- broken


NAN = np.full(TOKENS.shape, np.nan)


class Sized:
    """A sequence of a length of its own making."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, key: int) -> int:
        return [5, 2, 1][key]


class Arrays:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise OSError("not here")


BROKEN: dict[str, tuple[Any, str]] = {
    "nothing": (None, "verify must return harness.Result.*tokens is missing"),
    "a tuple": ((TOKENS, LENGTHS), "verify must return harness.Result.*tokens is missing"),
    "a dict": ({"tokens": TOKENS, "lengths": LENGTHS}, "tokens is missing"),
    "no tokens": (result(tokens=None), "tokens is missing"),
    "no lengths": (result(lengths=None), "lengths is missing"),
    "float tokens": (result(tokens=TOKENS.astype(np.float32)), "tokens must be of an integer dtype, got float32$"),
    "float lengths": (result(lengths=LENGTHS.astype(float)), "lengths must be of an integer dtype, got float64$"),
    "float nodes": (result(nodes=NODES.astype(np.float16)), "nodes must be of an integer dtype, got float16$"),
    "bool lengths": (result(lengths=LENGTHS > 0), "lengths must be of an integer dtype, got bool"),
    "object tokens": (result(tokens=TOKENS.astype(object)), "tokens must be of an integer dtype, got object"),
    "complex tokens": (result(tokens=TOKENS + 0j), "tokens must be of an integer dtype, got complex128"),
    "time tokens": (result(tokens=TOKENS.astype("m8[s]")), "tokens must be of an integer dtype, got timedelta64"),
    "wide NaN": (result(tokens=np.broadcast_to(np.float32("nan"), (3, 1 << 40))), "got float32 with NaN in it"),
    "no end": (result(tokens=Sized(10**18)), "tokens must be an array: MemoryError"),
    "no array": (result(tokens=Arrays()), r"tokens must be an array: OSError: not here$"),
    "text": (result(tokens="abc"), "tokens must be of an integer dtype"),
    "NaN": (result(tokens=NAN), "tokens must be of an integer dtype, got float64 with NaN in it"),
    "ragged": (result(tokens=[[5, 2, 1], [4, 0], [5]]), "tokens"),
    "no batch": (result(tokens=TOKENS[0]), r"tokens must have shape \[3, 3\] or wider, got \[3\]"),
    "too few rows": (result(tokens=TOKENS[:2]), r"tokens must have shape \[3, 3\] or wider, got \[2, 3\]"),
    "too many rows": (result(tokens=np.tile(TOKENS, (2, 1))), r"tokens .* got \[6, 3\]"),
    "too narrow": (result(tokens=TOKENS[:, :2]), r"tokens must have shape \[3, 3\] or wider, got \[3, 2\]"),
    "a third axis": (result(tokens=TOKENS[..., None]), r"tokens must have shape .* got \[3, 3, 1\]"),
    "lengths 2-d": (result(lengths=LENGTHS[:, None]), r"lengths must have shape \[3\], got \[3, 1\]"),
    "lengths short": (result(lengths=LENGTHS[:2]), r"lengths must have shape \[3\], got \[2\]"),
    "length a number": (result(lengths=3), r"lengths must have shape \[3\], got \[\]"),
    "length 0": (result(lengths=[3, 0, 1]), r"lengths must lie in \[1, 3\], got 0 in row 1"),
    "length huge": (
        result(lengths=np.array([1, 2**64 - 1, 1], np.uint64)),
        r"lengths must lie in \[1, 3\], got 18446744073709551615 in row 1",
    ),
    "length -1": (result(lengths=[3, 2, -1]), r"lengths must lie in \[1, 3\], got -1 in row 2"),
    "length beyond": (result(lengths=[4, 2, 1]), r"lengths must lie in \[1, 3\], got 4 in row 0"),
    "token V": (result(tokens=changed(TOKENS, 1, 1, 6)), r"tokens must lie in \[0, 6\), got 6 in row 1, column 1"),
    "token -1": (result(tokens=changed(TOKENS, 0, 2, -1)), r"tokens must lie in \[0, 6\), got -1 in row 0, column 2"),
    "token huge": (result(tokens=changed(TOKENS, 2, 0, 2**62)), r"tokens must lie .* row 2, column 0"),
    "nodes 1-d": (result(nodes=NODES[0]), r"nodes must have shape \[3, 3\] or wider, got \[3\]"),
    "nodes few": (result(nodes=NODES[:2]), r"nodes must have shape \[3, 3\] or wider, got \[2, 3\]"),
    "nodes narrow": (result(nodes=NODES[:, :2]), r"nodes must have shape \[3, 3\] or wider, got \[3, 2\]"),
    "nodes narrow, short rows": (
        Result(TOKENS, np.array([1, 1, 1]), NODES[:, :1]),
        r"nodes must have shape \[3, 3\] or wider, got \[3, 1\]",
    ),
    "nodes without root": (result(nodes=changed(NODES, 1, 0, 2)), "nodes must begin with the root.* got 2 in row 1"),
    "nodes global": (
        result(nodes=NODES + np.array([[0], [5], [10]])),
        "nodes must begin with the root.* got 5 in row 1",
    ),
    "node beyond": (result(nodes=changed(NODES, 0, 2, 5)), r"nodes must lie in \[0, 5\), got 5 in row 0, column 2"),
    "node -1 within": (
        result(nodes=changed(NODES, 0, 2, -1)),
        r"nodes must lie in \[0, 5\), got -1 in row 0, column 2",
    ),
    "no path": (result(nodes=changed(NODES, 0, 1, 2)), "row 0, node 3 does not follow node 2"),
    "root again": (result(nodes=changed(NODES, 1, 1, 0)), "row 1, node 0 does not follow node 0"),
    "nodes disagree": (
        result(tokens=changed(TOKENS, 0, 1, 3)),
        "tokens must be those of the accepted nodes: in row 0, column 1 is token 3, but node 3 has 2",
    ),
    "padding disagrees": (result(nodes=changed(NODES, 1, 1, 4)), "row 1, column 0 is token 4, but node 4 has 0"),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_broken(name: str) -> None:
    returned, says = BROKEN[name]
    with pytest.raises(BrokenResult, match=says):
        emitted(returned, ONE)


def test_nodes_that_are_too_narrow_for_a_length_beyond_the_limit() -> None:
    long = Result(widened(TOKENS, 1, 1), np.array([4, 2, 1]), NODES)
    with pytest.raises(BrokenResult, match=r"nodes must have shape \[3, 4\] or wider, got \[3, 3\]"):
        emitted(long, ONE)


@pytest.mark.parametrize(("kind", "says"), [("sparse", "layout"), ("meta", "meta tensor"), ("conj", "conjugate")])
def test_torch_tensors_that_are_no_arrays_are_broken(kind: str, says: str) -> None:
    torch = pytest.importorskip("torch")
    tokens = torch.from_numpy(TOKENS)
    made = {"sparse": tokens.to_sparse(), "meta": tokens.to("meta"), "conj": tokens.to(torch.complex64).conj()}
    with pytest.raises(BrokenResult, match=f"tokens must be an array: .*{says}"):
        emitted(result(tokens=made[kind]), ONE)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "bool"])
def test_torch_tensors_of_no_integer_dtype_are_broken(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    tokens = torch.from_numpy(TOKENS).to(getattr(torch, dtype))
    with pytest.raises(BrokenResult, match=f"tokens must be of an integer dtype, got .*{dtype}"):
        emitted(result(tokens=tokens), ONE)


def test_a_broken_result_is_an_error_of_exit_code_3() -> None:
    assert issubclass(BrokenResult, ChitreeError)
    assert BrokenResult("x").exit_code == 3
