"""Random subscripts and operands: einsum gives the right result or one of jsparse's errors."""

import numpy as np
import pytest
from programs.amount import amount

import jsparse
from jsparse import JsparseError, SparseTensor

COUNT = amount(60, 500)  # of each seed
SIZE = 3  # of every dimension, so that any index fits any other


def operand_pool():
    rng = np.random.default_rng(0)
    dense = [rng.integers(-2, 3, (SIZE,) * rank).astype(np.float32) for rank in range(4)]
    matrix, cube = dense[2] * (rng.random((SIZE, SIZE)) < 0.5), dense[3] * (rng.random((SIZE,) * 3) < 0.4)
    A = jsparse.asarray(matrix)
    sparse = [
        *[A.asformat(format) for format in ("csr", "csc", "coo", "dcsr", "dense")],
        A.with_values(2 * A.values),
        A.T,
        jsparse.asarray(matrix[0]),
        jsparse.asarray(cube, "csf"),
        jsparse.asarray(cube, "coo"),
    ]
    return dense, sparse


DENSE, SPARSE = operand_pool()


def whole(x):
    return np.asarray(x.todense()) if isinstance(x, SparseTensor) else x


def draw(rng):
    """Random subscripts, operands and out_format. Some operand or out_format is sparse, and subscripts often fit."""
    operands = [DENSE[rng.integers(4)] for _ in range(rng.integers(0, 3))]
    sparse = [SPARSE[rng.integers(len(SPARSE))] for _ in range(rng.integers(1, 3) - (rng.random() < 0.3))]
    for x in sparse:
        operands.insert(rng.integers(len(operands) + 1), x)
    out_format = SPARSE[rng.integers(len(SPARSE))] if not sparse or rng.random() < 0.3 else None
    if rng.random() < 0.2:
        out_format = ["dense", "csr", "csx", 3][rng.integers(4)]
    terms = ["".join(rng.choice(list("ijkl"), x.ndim)) for x in operands]
    used = sorted(set("".join(terms)))
    kept = [v for v in rng.permutation(used) if rng.random() < 0.5] if used else []
    text = ",".join(terms) + ("" if rng.random() < 0.1 else "->" + "".join(kept))
    if rng.random() < 0.8:
        text = mutated(rng, text)
    return text, operands, out_format


def mutated(rng, text):
    characters = list(text)
    for _ in range(rng.integers(1, 4)):
        at = rng.integers(len(characters) + 1)
        if characters and rng.random() < 0.5:
            characters.pop(min(at, len(characters) - 1))
        else:
            characters.insert(at, "ijzJ,->. 1é*"[rng.integers(12)])
    return "".join(characters)


def answer(text, operands, out_format):
    """The result and numpy's. For a sampled result, both at its entries."""
    found = jsparse.einsum(text, *operands, out_format=out_format)
    expected = np.einsum(text.replace(" ", ""), *map(whole, operands), optimize=False)
    if isinstance(out_format, SparseTensor):
        assert found.pattern is out_format.pattern
        expected = expected[tuple(found.pattern.to_coords())]
        found = found.values
    return np.asarray(whole(found)), expected


def is_plain(operands, out_format):
    """Whether einsum calls `jnp.einsum`, which raises its own errors."""
    return out_format is None and not any(isinstance(x, SparseTensor) for x in operands)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
def test_random_subscripts(seed):
    rng = np.random.default_rng(seed)
    computed = 0
    for _ in range(COUNT):
        text, operands, out_format = draw(rng)
        if is_plain(operands, out_format):
            continue
        described = f"{text!r} of {[x if isinstance(x, SparseTensor) else x.shape for x in operands]}, {out_format}"
        try:
            found, expected = answer(text, operands, out_format)
        except JsparseError:
            continue
        except Exception as error:
            raise AssertionError(described) from error
        np.testing.assert_array_equal(found, expected, described)
        computed += 1
    assert computed > COUNT // 20
