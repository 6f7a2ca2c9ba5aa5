"""Operations of the public API, each as a call on operands of one set, and what the call means on dense arrays.

The tests of `properties/` check every operation in the same ways: see `properties/programs.py`. A call is a text, which
names its test, too. By default it means on dense arrays what the same text does with the functions of JAX in place of
those of jsparse. Where JAX has no such function, another text says it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from nn import formulas

import jsparse
from jsparse import graph, nn

__all__ = ["CATALOGUE", "OPERANDS", "OTHERS", "SPARSE", "UNPOISONED", "DenseFunctions", "Operation"]

SPARSE = {"A": "csr", "B": "csc", "S": "csr", "C": "csf"}
"""The operands that are sparse tensors, and their formats."""


def _stored(seed: int, *shape: int, signed: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1, 1], shape) if signed else 1
    return (signs * rng.uniform(0.5, 1.5, shape) * (rng.random(shape) < 0.4)).astype(np.float32)


def _operands(seed: int) -> dict[str, np.ndarray]:
    """Operands by name, as dense arrays: S is square, and those of lower case have one dimension."""
    rng = np.random.default_rng(seed)
    sparse = {"A": _stored(seed + 1, 5, 7, signed=True), "B": _stored(seed + 2, 5, 7)}
    sparse |= {"S": _stored(seed + 3, 5, 5), "C": _stored(seed + 4, 2, 5, 5)}
    shapes = {"x": (7,), "y": (5,), "X": (7, 3), "Y": (5, 3), "Z": (5, 7), "W": (3, 2), "H": (3, 2, 2), "u": (2, 2)}
    shapes |= {"Q": (2, 5, 3), "R": (2, 3, 2)}
    return sparse | {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


OPERANDS, OTHERS = _operands(0), _operands(100)
IDS = np.array([4, 0, 3, 3])
ORDER = np.array([3, 1, 4, 0, 2])
PLACES = np.array([[4, 0, 3, 2, 1, 0, 4, 2], [6, 1, 3, 5, 0, 2, 4, 0]])
PARTS = np.array([0, 0, 1, 1, 1])
EYE = np.eye(5, dtype=bool)


class DenseFunctions:
    """JAX's functions by the names of jsparse."""

    def __getattr__(self, name: str) -> Any:
        return next(getattr(module, name) for module in (jnp, jax.nn, jax.scipy.special) if hasattr(module, name))

    @staticmethod
    def einsum(text: str, *operands: Any, nse: int = 0, **options: Any) -> jax.Array:
        return jnp.einsum(text, *operands)


def softmax(x: jax.Array, at: jax.Array, axis: int = 1) -> jax.Array:
    """Over the stored entries, which `at` says."""
    powers = jnp.where(at, jnp.exp(x), 0)
    sums = powers.sum(axis, keepdims=True)
    return powers / jnp.where(sums == 0, 1, sums)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, at: jax.Array) -> jax.Array:
    return softmax(q @ jnp.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5, at, -1) @ v


def normalized(S: jax.Array, of: str = "symmetric") -> jax.Array:
    degree = S.sum(1)
    safe = jnp.where(degree > 0, degree, 1)
    inverse = jnp.where(degree > 0, 1 / safe if of == "row" else 1 / jnp.sqrt(safe), 0)
    return inverse[:, None] * S * (1 if of == "row" else inverse[None])


def least(x: jax.Array, at: jax.Array, axis: int = 1) -> jax.Array:
    return jnp.where(at, x, jnp.inf).min(axis)


def most(x: jax.Array, at: jax.Array, axis: int = 1) -> jax.Array:
    return jnp.where(at, x, -jnp.inf).max(axis)


MODULES = {"jax": jax, "jnp": jnp, "np": np, "nn": nn, "graph": graph, "IDS": IDS, "ORDER": ORDER}
MODULES |= {"PARTS": PARTS, "PLACES": PLACES}
OF_TENSORS = {**MODULES, "jsparse": jsparse}
OF_DENSE = {
    **MODULES, "jsparse": DenseFunctions(), "softmax": softmax, "attention": attention, "normalized": normalized,
    "least": least, "most": most, "formulas": formulas, "EYE": EYE,
}  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """A call, and its meaning: a text in which `at_A` is a mask of the entries that A stores."""

    call: str
    meaning: str
    group: str

    @cached_property
    def operands(self) -> list[str]:
        texts = (self.call, self.meaning)
        named = {node.id for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        return [name for name in OPERANDS if name in named]

    @property
    def tensors(self) -> list[str]:
        return [name for name in self.operands if name in SPARSE]

    @cached_property
    def of_tensors(self) -> Callable[[dict[str, Any]], Any]:
        """The call as a function of operands by name."""
        code = compile(self.call, self.call, "eval")
        return lambda operands: eval(code, {**OF_TENSORS, **operands})

    @cached_property
    def of_dense(self) -> Callable[[dict[str, Any]], Any]:
        """The meaning as a function of dense operands by name, and of masks."""
        code = compile(self.meaning, self.meaning, "eval")
        return lambda operands: eval(code, {**OF_DENSE, **operands})

    def __str__(self) -> str:
        return self.call


SAME = "the same text"
LINEAR = {  # in the values of A
    "A @ x": SAME, "A @ X": SAME, "A.T @ Y": SAME, "y @ A": SAME, "Y.T @ A": SAME, "A * x": SAME,
    "A * y[:, None]": SAME,
    "A * Z": SAME, "A * 2.5": SAME, "A / y[:, None]": SAME, "-A": SAME, "A + B": SAME, "A - B": SAME, "A * B": SAME,
    "2 * A - Z": SAME, "A.sum(0)": SAME, "A.sum(1)": SAME, "A.sum()": SAME, "A.mean(0)": SAME,
    "A.T * x[:, None]": SAME, "A.todense()": "A", "A.asformat('csc')": "A", "A.asformat('coo')": "A",
    "A.asformat('dcsc').T": "A.T", "A.with_transpose().T @ y": "A.T @ y",
    "jsparse.einsum('ij,kj->ik', A, B, nse=25)": SAME,
    "jsparse.einsum('ij,kj->ki', A, B, nse=25, out_format='csc')": SAME,
    "jsparse.einsum('ij,kj->ik', A, B, out_format='dense')": SAME, "jsparse.einsum('ij,ij->', A, B)": SAME,
    "jsparse.einsum('ij,ik->jk', A, S, nse=35)": SAME, "jsparse.einsum('ij,jk,kl->il', A, X, W)": SAME,
    "jsparse.einsum('ij,ik,jk->k', A, Y, X)": SAME, "jsparse.einsum('ij,jk,il->kl', A, X, Y)": SAME,
    "jsparse.einsum('ij,i->ij', A, y)": SAME, "jsparse.einsum('ij,ik,jk->ij', A, Y, X)": SAME,
    "jsparse.einsum('ij,ik->ijk', A, Y)": SAME,
    "jsparse.einsum('ij,kj,il->kl', A, B, S, nse=25)": SAME,
    "jsparse.einsum('ij,j->ij', A, x, out_format=B)": "jnp.where(at_B, A * x, 0)",
    "jsparse.evaluate('y[i] = 2 * A[i,j] * x[j] - A[i,j] / 2', A=A, x=x)": "2 * A @ x - A.sum(1) / 2",
    "jsparse.evaluate('D[i,j] = 3 * A[i,j] - A[i,j] * B[i,j]', A=A, B=B)": "3 * A - A * B",
    "jsparse.evaluate('D[i,j] = 3 * A[i,j] - B[i,j]', A=A, B=B)": "3 * A - B",
    "jsparse.evaluate('D[i,k] = A[i,j] * B[k,j] - S[i,k]', A=A, B=B, S=S, nse=25)": "A @ B.T - S",
    "jsparse.evaluate('C[t[p],f] += A[p,j] * X[j,f]', shape=(6, 3), A=A, X=X, t=np.array([5, 0, 0, 2, 5]))":
        "jnp.zeros((6, 3), A.dtype).at[np.array([5, 0, 0, 2, 5])].add(A @ X)",
    "jsparse.evaluate('y[p] = A[t[p],j] * x[j]', A=A, x=x, t=IDS)": "A[IDS] @ x",
    "jsparse.evaluate('D[k,i] = A[i,j] * x[j]', A=A, x=x, shape=(3, 5))": "jnp.broadcast_to(A @ x, (3, 5))",
}  # fmt: skip
PRODUCTS = {
    "A * A": SAME, "A**2": SAME, "1 / y[:, None] * A": SAME,
    "jsparse.einsum('ij,kj->ik', A, A, nse=25)": SAME, "jsparse.einsum('ij,ij->i', A, A)": SAME,
    "jsparse.einsum('ik,jk->ij', Y, X, out_format=A)": "jnp.where(at_A, Y @ X.T, 0)",
    "jsparse.einsum('ij,jk->ik', A.pattern, X)": "at_A.astype(X.dtype) @ X",
    "jsparse.einsum('ij,jk,ik->ij', A.pattern, X, Y)": "jnp.where(at_A, Y @ X.T, 0)",
    "jsparse.einsum('rij,jf->if', C, Y)": SAME, "jsparse.einsum('rij,jf,rfg->ig', C, Y, R)": SAME,
    "jsparse.einsum('rij->ij', C, nse=25)": SAME, "jsparse.einsum('ii->i', S)": SAME,
    "jsparse.einsum('ii,ij->j', S, S)": SAME,
    "jsparse.einsum('ij,j->i', A, x, semiring='min_plus')": "least(A + x, at_A)",
    "jsparse.einsum('ij,jk->ik', A, X, semiring='max_plus')": "most(A[:, :, None] + X, at_A[:, :, None])",
    "jsparse.einsum('ij,jk->ik', A, X, semiring='max_times')": "most(A[:, :, None] * X, at_A[:, :, None])",
    "jsparse.einsum('ij,kj->ik', A, B, semiring='min_plus', out_format='dense')":
        "least(A[:, None] + B[None], at_A[:, None] & at_B[None], 2)",
    "jsparse.einsum('ij,kj->ik', A, B, semiring='min_plus', nse=25)":
        "jnp.nan_to_num(least(A[:, None] + B[None], at_A[:, None] & at_B[None], 2), posinf=0)",
    "jsparse.einsum('ik,jk->ij', Y, X, semiring='min_plus', out_format=A)":
        "jnp.where(at_A, (Y[:, None] + X[None]).min(2), 0)",
    "jsparse.evaluate('y[i] += sqrt(B[i,j]) * exp(x[j]) / (2 + cos(x[j]))', B=B, x=x)":
        "jnp.where(at_B, jnp.sqrt(jnp.where(at_B, B, 1)), 0) @ (jnp.exp(x) / (2 + jnp.cos(x)))",
    "jsparse.evaluate('D[i,j] = relu(A[i,j]) * tanh(B[i,j]) + A[i,j]', A=A, B=B)": "jax.nn.relu(A) * jnp.tanh(B) + A",
    "jsparse.evaluate('s = B[i,j] ** 2 / y[i]', B=B, y=y)": "(B**2 / y[:, None]).sum()",
}  # fmt: skip
FUNCTIONS = {
    **{f"jsparse.{name}(A)": SAME for name in (
        "abs", "arcsinh", "celu", "elu", "expm1", "gelu", "leaky_relu", "relu6", "round", "selu", "sign", "silu",
        "sin", "soft_sign", "square", "tanh", "trunc", "relu",
    )},
    **{f"jsparse.{name}(A)": f"jnp.where(at_A, jsparse.{name}(A), 0)" for name in
       ("exp", "cos", "softplus", "sigmoid")},
    "jsparse.log1p(B)": SAME, "jsparse.isfinite(B)": "at_B & jnp.isfinite(B)",
    **{f"jsparse.{name}(B)": f"jnp.where(at_B, jsparse.{name}(jnp.where(at_B, B, 1)), 0)" for name in ("cbrt", "sqrt")},
    "B.map(lambda v: jnp.log(v) * v)": "jnp.where(at_B, jnp.log(jnp.where(at_B, B, 1)) * B, 0)",
    "A.map(lambda v: 2 * v + 1)": "jnp.where(at_A, 2 * A + 1, 0)",
    "jsparse.maximum(A, B)": SAME, "jsparse.minimum(A, B)": SAME, "A > 1": SAME, "A > B": SAME,
    "jsparse.not_equal(A, B)": SAME,
    "(A > 0) & (B > 1)": SAME, "jsparse.where(A > 1, A, 2 * A)": SAME, "jsparse.where(A > 0, A, 0)": SAME,
    "A + Z": SAME, "jsparse.clip(A, -1, 1)": SAME, "jsparse.multiply(A, B)": SAME,
    "A.astype('bfloat16')": SAME, "A.with_values(jnp.tanh(A.values))": "jnp.tanh(A)",
}  # fmt: skip
REDUCTIONS = {
    **{f"A.{name}({axis})": SAME for name in ("max", "min", "prod", "any", "all") for axis in (0, "")},
    "A.max(1)": SAME, "A.argmax()": "jnp.where(at_A, A, -jnp.inf).argmax()",
    "A.argmin(1)": "jnp.where(at_A.any(1), jnp.where(at_A, A, jnp.inf).argmin(1), -1)",
    "A.mean()": SAME, "A.var(1)": SAME, "A.std()": SAME,
    "A.max(1, stored=True)": "most(A, at_A)", "B.min(0, stored=True)": "least(B, at_B, 0)",
    "A.prod(1, stored=True)": "jnp.where(at_A, A, 1).prod(1)",
    "A.mean(0, stored=True)": "A.sum(0) / jnp.maximum(at_A.sum(0), 1).astype(A.dtype)",
    "jsparse.norm(A)": "jnp.sqrt((A**2).sum())", "jsparse.norm(A, 1)": "jnp.linalg.norm(A, 1)",
    "jsparse.norm(A, np.inf)": "jnp.linalg.norm(A, np.inf)",
    "jsparse.softmax(A)": "softmax(A, at_A)", "jsparse.softmax(A, 0)": "softmax(A, at_A, 0)",
    "jsparse.log_softmax(A)": "jnp.where(at_A, jnp.log(jnp.where(at_A, softmax(A, at_A), 1)), 0)",
    "jsparse.logsumexp(A, 1)": "jax.nn.logsumexp(jnp.where(at_A, A, -jnp.inf), 1)",
    "jsparse.logsumexp(A, 0)": "jax.nn.logsumexp(jnp.where(at_A, A, -jnp.inf), 0)",
    "jsparse.trace(S)": SAME, "jsparse.vecdot(A, B)": "(A * B).sum(1)", "jsparse.count_nonzero(A, 0)": SAME,
    "jsparse.nansum(A, 1)": SAME,
}  # fmt: skip
INDEXING = {
    "A[1]": SAME, "A[1:3]": SAME, "A[::2, ::-1]": SAME, "A[1, 2]": SAME, "A[IDS, IDS]": SAME, "A[:, IDS[:2]]": SAME,
    "A.at_coords(PLACES)": "A[PLACES[0], PLACES[1]]",
    "A.take(IDS, 0, nse=28)": "A[IDS]", "A.take(IDS, 1, nse=20)": "A[:, IDS]",
    "A[np.ix_(IDS, IDS)]": SAME, "C[1]": SAME, "C[:, ::-1]": SAME, "A.diagonal()": SAME, "A[None]": SAME,
}  # fmt: skip
SHAPES = {
    "A.reshape(7, 5)": SAME, "A.reshape(5, 7, 1)": SAME, "A.ravel()": SAME, "C.reshape(10, 5)": SAME, "A.T": SAME,
    "jsparse.repeat(A, 2, 0)": SAME,
    "jsparse.repeat(A, [2, 0, 1, 4, 3], 0)": "jnp.repeat(A, np.array([2, 0, 1, 4, 3]), 0)",
    "jsparse.tile(A, (2, 1))": SAME, "jsparse.broadcast_to(A, (2, 5, 7))": SAME,
    "jsparse.roll(A, 1, 0)": SAME, "jsparse.roll(A, (1, 2), (0, 1))": SAME, "jsparse.flip(A)": SAME,
    "jsparse.pad(A, ((1, 2), (0, 1)))": SAME, "jsparse.swapaxes(C, 0, 2)": SAME, "jsparse.expand_dims(A, 1)": SAME,
    "jsparse.tril(A)": SAME, "jsparse.triu(A, 1)": SAME, "jsparse.diag(S)": SAME, "jsparse.diag(y)": SAME,
    "jsparse.concatenate([A, B])": SAME, "jsparse.concatenate([A, S], 1)": SAME, "jsparse.stack([A, B])": SAME,
    "jsparse.block_diag([A, S])": "jax.scipy.linalg.block_diag(A, S)", "jsparse.kron(S, A)": SAME,
    "jsparse.outer(A[0], B[0])": SAME, "jsparse.hstack([A, B])": SAME, "jsparse.sort(A)": SAME,
    "jsparse.diff(A, axis=0)": SAME,
    "jsparse.top_k(B, 2)": "jnp.where(B >= jnp.sort(B, 1)[:, -2:-1], B, 0)",
    "A.prune(keep=4)": "jnp.where(jnp.abs(A) >= jnp.sort(jnp.abs(A).ravel())[-4], A, 0)",
    "A.prune(threshold=1.0)": "jnp.where(jnp.abs(A) >= 1, A, 0)", "A.restrict(B)": "jnp.where(at_B, A, 0)",
    "A.drop_zeros()": "A", "A.regrow(Z, 2)": "A",
    "jsparse.SparseTensor.from_coords(np.stack([IDS, IDS]), x[:4], (5, 7), nse=6)":
        "jnp.zeros((5, 7), x.dtype).at[IDS, IDS].add(x[:4])",
    "jsparse.asarray(Z, dynamic=True, nse=35) @ x": "Z @ x",
    "jsparse.eye(7, dtype=x.dtype) @ x": "x",
}  # fmt: skip
GRAPHS = {
    "graph.normalize(S)": "normalized(S)", "graph.normalize(S, 'row')": "normalized(S, 'row')",
    "graph.normalize(S, 'column')": "normalized(S.T, 'row').T",
    "graph.add_self_loops(S)": "S + jnp.eye(5, dtype=S.dtype)", "graph.degree(S)": "S.sum(1)",
    "graph.remove_self_loops(S)": "S * (1 - jnp.eye(5, dtype=S.dtype))",
    "graph.symmetrize(S)": "jnp.maximum(S, S.T)", "graph.symmetrize(S, 'mean')": "(S + S.T) / 2",
    "graph.batch([S, S], nodes=12, nse=50).graph": "jnp.pad(jax.scipy.linalg.block_diag(S, S), ((0, 2), (0, 2)))",
    "graph.permute(S, ORDER)": "S[ORDER][:, ORDER]",
    "graph.from_edges(IDS, IDS[::-1], x[:4], nodes=5, nse=8)":
        "jnp.zeros((5, 5), x.dtype).at[IDS[::-1], IDS].add(x[:4])",
    "graph.subgraph(IDS[:3], S, relabel_nodes=True).graph": "S[IDS[:3]][:, IDS[:3]]",
    **{f"nn.aggregate(S, Y, '{name}')": f"formulas.messages(S, at_S, Y, '{name}')" for name in
       ("sum", "mean", "max", "min", "std")},
    "nn.gcn_conv(S, Y, W)": "formulas.gcn(S, Y, W, 0)",
    "nn.gin_conv(S, Y, jnp.tanh)": "formulas.gin(S, Y, Y, jnp.tanh, 0)",
    "nn.sage_conv(S, Y, W, reduction='max')": "formulas.messages(S, at_S, Y, 'max') @ W",
    "nn.gat_conv(S, Y, H, u, u[::-1])": "formulas.gat(at_S | EYE, Y, Y, H, H, u, u[::-1], 0)",
    "nn.gatv2_conv(S, Y, H, H[::-1], u)": "formulas.gatv2(at_S | EYE, Y, Y, H, H[::-1], u, 0)",
    "nn.cheb_conv(S, Y, R, lambda_max=2.0)": "Y @ R[0] - normalized(S) @ Y @ R[1]",
    "nn.rgcn_conv(C, Y, R)": "formulas.rgcn(C, Y, Y, R, jnp.zeros((3, 2), Y.dtype), 0)",
    "nn.edge_conv(S, Y, lambda h: jnp.tanh(h[..., :3] + h[..., 3:]), reduction='sum')":
        "formulas.edge_conv(at_S, Y, Y, lambda h: jnp.tanh(h[..., :3] + h[..., 3:]), 'sum')",
    "nn.transformer_conv(S, Y, *[nn.Projection(H)] * 3)":
        "formulas.transformer(at_S, Y, Y, H, H, H, 0, 0, 0, jnp.zeros((3, 4), Y.dtype), 0)",
    "nn.linear(Y.T, A, x)": "Y.T @ A + x",
    "nn.pool(Y, PARTS, 2, 'max')": "jax.ops.segment_max(Y, PARTS, 2)",
    "nn.attention_pool(Y, y, PARTS, 2)": "softmax(jnp.stack([y, y]), PARTS == np.arange(2)[:, None]) @ Y",
    "nn.embedding_bag(X, IDS.reshape(2, 2))": "X[IDS.reshape(2, 2)].sum(1)",
    "nn.top_k_activations(X, 2)": "jnp.where(X >= jnp.sort(X, 1)[:, -2:-1], X, 0)",
}  # fmt: skip
CHAINS = {
    "jsparse.sparse_attention(Q, Q + 1, 2 * Q, S)": "attention(Q, Q + 1, 2 * Q, at_S)",
    "jsparse.fuse(lambda A, X: jsparse.softmax(A * 2) @ X)(A, X)": "softmax(A * 2, at_A) @ X",
    "jsparse.fuse(lambda A, X, W: jax.nn.relu((A @ X) @ W))(A, X, W)": "jax.nn.relu(A @ X @ W)",
    "jsparse.sparsify(lambda A: jnp.mean(A, 0) + jnp.sum(A + 1.0, 0) + jnp.max(A, 0))(A)":
        "A.mean(0) + (A + 1).sum(0) + A.max(0)",
    "jsparse.sparsify(lambda A, X: jax.nn.softmax(A, 1) @ X)(A, X)": "jax.nn.softmax(A, 1) @ X",
    "jsparse.sparsify(lambda A: (A - A.mean(0)) * jnp.tanh(A))(A)": "(A - A.mean(0)) * jnp.tanh(A)",
}  # fmt: skip

GROUPS = {
    "linear": LINEAR, "products": PRODUCTS, "functions": FUNCTIONS, "reductions": REDUCTIONS, "indexing": INDEXING,
    "shapes": SHAPES, "graphs": GRAPHS, "chains": CHAINS,
}  # fmt: skip
UNPOISONED = {"jsparse.top_k(B, 2)"}
"""Operations with coordinates as values on the way, which are integers and have no NaN: the program fails instead."""
CATALOGUE = [
    Operation(call, call if meaning is SAME else meaning, group)
    for group, table in GROUPS.items()
    for call, meaning in table.items()
]
