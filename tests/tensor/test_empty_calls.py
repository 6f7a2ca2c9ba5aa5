"""A call of every public function with sizes of 0: it gives what JAX gives of dense arrays, or an error of ours."""

import ast
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import JsparseError, graph, nn, pattern
from jsparse.notation.functions import FUNCTIONS

SHAPES = [(0, 3), (3, 0), (0, 0)]
TAKE_NO_ARRAYS = {"clear_cache", "config", "profile", "save", "load", "gradual_sparsity"}
TAKE_FUNCTIONS_OR_LIBRARIES = {"export", "fuse", "grad", "value_and_grad", "sparsify", "from_networkx", "from_jraph"}
NOT_CALLED = TAKE_NO_ARRAYS | TAKE_FUNCTIONS_OR_LIBRARIES | {"accelerate_jax_sparse", "link_batches"}

# A has one of the shapes, S has as many rows and columns as A has rows; X and Y are dense arrays of these shapes,
# v and w vectors of n and of m, P the pattern of S, F features of the nodes of S, k a key.
OF_TENSORS = {
    "add": "jsparse.add(A, A)", "all": "A.all(0), A.all(1), A.all()", "any": "A.any(0), A.any(1), A.any()",
    "allclose": "jsparse.allclose(A, X)", "array_equal": "jsparse.array_equal(A, A)", "argmax": "A.argmax(0)",
    "argmin": "A.argmin(1)", "argsort": "jsparse.argsort(D, axis=1)",
    "asarray": "jsparse.asarray(X), jsparse.asarray(X, dynamic=True), jsparse.asarray(A, format='csc')",
    "astype": "jsparse.astype(A, 'bfloat16')", "attention_fn": "jsparse.attention_fn(P)(*[F.reshape(1, n, 1, 2)] * 3)",
    "autotune": "str(jsparse.autotune('ij,ik->jk', A, X, budget=0.01))",
    "bitwise_and": "(A > 0) & (A > 0)", "bitwise_invert": "jsparse.bitwise_invert(A)",
    "bitwise_or": "(A > 0) | (A > 0)",
    "bitwise_xor": "(A > 0) ^ (A > 0)",
    "block_fill": "jsparse.block_fill(2, 2, 0.5)(np.zeros((2, n), int))", "block_diag": "jsparse.block_diag([A, S, A])",
    "broadcast_to": "jsparse.broadcast_to(A, (2, n, m))", "can_cast": "jsparse.can_cast(A, 'float64')",
    "choose_format": "str(jsparse.choose_format(A))",
    "clip": "jsparse.clip(A, -1, 1)", "concat": "jsparse.concat([A, A])",
    "concatenate": "jsparse.concatenate([A, A], axis=1), jsparse.concatenate([S, A], axis=1)",
    "count_nonzero": "jsparse.count_nonzero(A), jsparse.count_nonzero(A, 0)",
    "cumulative_sum": "jsparse.cumulative_sum(D, axis=1)",
    "decompose": "jsparse.decompose(A, [(lambda coords: coords[0] > 1, 'bsr(2, 2)'), (None, 'csr')])",
    "diag": "jsparse.diag(v), jsparse.diag(S)", "diagonal": "A.diagonal()", "diff": "jsparse.diff(A, axis=0)",
    "divide": "A / 2, A / (X + 1)", "dot": "jsparse.dot(A, A.T), jsparse.dot(A, w), jsparse.dot(v, A)",
    "dot_product_attention": "jsparse.dot_product_attention(*[F.reshape(1, n, 1, 2)] * 3, mask=P)",
    "drop_zeros": "A.drop_zeros()",
    "einsum": "jsparse.einsum('ij,jk->ik', A, A.T), jsparse.einsum('ij,ij->', A, A), jsparse.einsum('ij,j->ij', A, w), "
              "jsparse.einsum('ij,kj->ik', X, X, out_format=S), jsparse.einsum('ij,j->i', A, w, semiring='min_plus')",
    "equal": "jsparse.equal(S, X @ X.T)",
    "evaluate": "jsparse.evaluate('y[i] = A[i,j] * w[j] - v[i]', A=A, w=w, v=v), "
                "jsparse.evaluate('y[i,j] = relu(A[i,j]) + A[i,j]', A=A)",
    "expand_dims": "jsparse.expand_dims(A, 1)", "explain": "str(jsparse.explain('ij,jk->ik', A, A.T))",
    "eye": "jsparse.eye(n), jsparse.eye(n, m, k=1)", "flip": "jsparse.flip(A), jsparse.flip(A, 1)",
    "full": "jsparse.full((n, m), 2.0)", "full_like": "jsparse.full_like(A, 2.0)", "greater": "A > 1",
    "greater_equal": "A >= 1", "hstack": "jsparse.hstack([A, S])", "kron": "jsparse.kron(A, S), jsparse.kron(A, X)",
    "less": "A < -1", "less_equal": "A <= -1", "logical_not": "jsparse.logical_not(A)",
    "log_softmax": "jsparse.log_softmax(A), jsparse.log_softmax(A, axis=0)",
    "logsumexp": "jsparse.logsumexp(A, axis=0), jsparse.logsumexp(A, axis=1)",
    "matmul": "A @ A.T, A @ X.T, X.T @ A, A @ w, v @ A", "matrix_transpose": "jsparse.matrix_transpose(A)",
    "max": "A.max(0), A.max(1)", "mean": "A.mean(0), A.mean(1), A.mean(0, stored=True)", "min": "A.min(0), A.min(1)",
    "moveaxis": "jsparse.moveaxis(A, 0, 1)", "multiply": "A * A, A * X, A * w", "nanmax": "jsparse.nanmax(A, 0)",
    "nanmean": "jsparse.nanmean(A, 1)", "nanmin": "jsparse.nanmin(A, 1)", "nanprod": "jsparse.nanprod(A, 0)",
    "nansum": "jsparse.nansum(A, 1)", "nonzero": "jsparse.nonzero(A)",
    "norm": "jsparse.norm(A), jsparse.norm(A, axis=0), jsparse.norm(A, 1)", "not_equal": "jsparse.not_equal(A, A)",
    "ones": "jsparse.ones((n, m))", "ones_like": "jsparse.ones_like(A)", "outer": "jsparse.outer(A[:, :0], S)",
    "pad": "jsparse.pad(A, 1), jsparse.pad(A, ((0, 0), (2, 0)))", "permute_dims": "jsparse.permute_dims(A, (1, 0))",
    "power": "A ** 2, A ** 0.5", "prod": "A.prod(0), A.prod(1)",
    "prune": "A.prune(keep=0), A.prune(threshold=0.5), A.prune(mask=A.values > 0)",
    "random": "jsparse.random(k, (n, m), nse=0), jsparse.random(k, (n, m), density=0.5)",
    "row_length": "jsparse.row_length(1)(np.zeros((2, n), int))",
    "ravel": "A.ravel(), A.ravel(order='F')", "regrow": "S.regrow(X @ X.T, k=0)",
    "repeat": "jsparse.repeat(A, 2, axis=0), jsparse.repeat(A, 0, axis=1)",
    "reshape": "A.reshape(m, n), A.reshape(n, m, 1), A.reshape(0)", "restrict": "A.restrict(A)",
    "result_type": "jsparse.result_type(A, 1.5)", "roll": "jsparse.roll(A, 1), jsparse.roll(A, 2, axis=1)",
    "shard": "jsparse.shard(S, mesh, 'x') @ X",
    "softmax": "jsparse.softmax(A), jsparse.softmax(A, axis=0)", "sort": "jsparse.sort(A), jsparse.sort(A, axis=0)",
    "sparse_attention": "jsparse.sparse_attention(F, F, F, P)", "squeeze": "jsparse.expand_dims(A, 0).squeeze(0)",
    "stack": "jsparse.stack([A, A]), jsparse.stack([A, A], axis=2)", "std": "A.std(0), A.std(1)",
    "subtract": "A - A, X - A", "sum": "A.sum(), A.sum(0), A.sum(1, keepdims=True)",
    "swapaxes": "jsparse.swapaxes(A, 0, 1)",
    "take": "A.take(jnp.zeros(0, int), 0), A.take(jnp.zeros(0, int), 1), A[:0], A[:, 1:], A[::-1], A[[], :], A[A > 0]",
    "take_along_axis": "jsparse.take_along_axis(A, X.astype(int), 1)",
    "tensordot": "jsparse.tensordot(A, A.T, 1), jsparse.tensordot(A, A, 2), jsparse.tensordot(A, w, 1)",
    "tile": "jsparse.tile(A, 2), jsparse.tile(A, (0, 2))", "top_k": "jsparse.top_k(A, 0), jsparse.top_k(A, m)",
    "trace": "jsparse.trace(A)", "transpose": "A.T", "tril": "jsparse.tril(A, -1)", "triu": "jsparse.triu(A, 1)",
    "unique_counts": "jsparse.unique_counts(A)", "unique_values": "jsparse.unique_values(A)",
    "unstack": "jsparse.unstack(A), jsparse.unstack(A, axis=1)", "values": "jsparse.values([A, S])",
    "var": "A.var(0), A.var(1)",
    "vecdot": "jsparse.vecdot(A, A), jsparse.vecdot(A, X, axis=0)", "vstack": "jsparse.vstack([A, A])",
    "where": "jsparse.where(A > 0, A, A), jsparse.where(A > 0, A, 0)",
    "with_values": "jsparse.with_values([A], [A.values])", "zeros": "jsparse.zeros((n, m))",
    "zeros_like": "jsparse.zeros_like(A)",
}  # fmt: skip
OF_TENSORS |= {
    name: f"jsparse.{name}(A)" if row.arity[0] == 1 else f"jsparse.{name}(A, A)"
    for name, row in FUNCTIONS.items()
    if row.arity[0] < 3 and not row.takes_integers and name not in OF_TENSORS
}
OF_TENSORS |= {name: f"jsparse.{name}(I, 1)" for name in ("left_shift", "right_shift")}
OF_TENSORS |= {f"bitwise_{name}": f"jsparse.bitwise_{name}(I, 1)" for name in ("left_shift", "right_shift")}

OF_NN = {
    "aggregate": "nn.aggregate(S, F), nn.aggregate(S, F, 'max'), nn.aggregate(S, F, ('mean', 'min', 'std'))",
    "attention_pool": "nn.attention_pool(F, v, number, 0), nn.attention_pool(F, v, number, 2)",
    "basis_kernel": "nn.basis_kernel(jnp.ones((2, 0)), jnp.ones((0, 3, 4))), nn.basis_kernel(X, jnp.ones((m, 2, 2)))",
    "block_linear": "nn.block_linear(jnp.ones((2, 2 * n)), jsparse.asarray(np.zeros((n, m, 2, 3), np.float32), "
                    "format='(i, j, k, l) -> (i : dense, j : compressed, k : dense, l : dense)'), jnp.ones(3 * m))",
    "cheb_conv": "nn.cheb_conv(S, F, jnp.ones((2, 2, 4)))", "edge_conv": "nn.edge_conv(S, F, lambda e: e[..., :2])",
    "embedding_bag": "nn.embedding_bag(jnp.ones((5, 2)), jnp.zeros((n, m), int)), "
                     "nn.embedding_bag(jnp.ones((5, 0)), jnp.zeros((2, 2), int))",
    "gat_conv": "nn.gat_conv(S, F, jnp.ones((2, 2, 3)), *jnp.ones((2, 2, 3)))",
    "gatv2_conv": "nn.gatv2_conv(S, F, *jnp.ones((2, 2, 2, 3)), jnp.ones((2, 3)))",
    "gcn_conv": "nn.gcn_conv(S, F, jnp.ones((2, 4))), nn.gcn_conv(S, X, jnp.ones((m, 4)))",
    "gin_conv": "nn.gin_conv(S, F, lambda h: 2 * h)",
    "linear": "nn.linear(X, A.T), nn.linear(Y, A), nn.linear(jnp.ones((0, 2, n)), A), nn.linear(v, A, jnp.ones(m))",
    "mixture_of_experts": "nn.mixture_of_experts(F, nn.route(jnp.ones((n, 3)), 1), jnp.ones((3, 2, 5)), "
                          "jnp.ones((3, 5, 2)))",
    "multi_head_attention": "nn.multi_head_attention(F, F, P, **projections)",
    "n_of_m": "nn.n_of_m(X, 1, 3), nn.n_of_m(X, 1, 3, axis=1)",
    "pool": "nn.pool(F, number, 0), nn.pool(F, number, 2, 'mean'), nn.pool(F, number, 2, 'max'), nn.pool(X, number, 0)",
    "relative_bias": "nn.relative_bias(jnp.ones((2, 3)), P)", "rgcn_conv": "nn.rgcn_conv(R, F, jnp.ones((2, 2, 4)))",
    "route": "nn.route(jnp.ones((n, 3)), 2), nn.route(X, 1)",
    "sage_conv": "nn.sage_conv(S, F, jnp.ones((2, 4))), nn.sage_conv(S, F, jnp.ones((2, 4)), reduction='max')",
    "top_k_activations": "nn.top_k_activations(X, 0), nn.top_k_activations(X, m)",
    "transformer_conv": "nn.transformer_conv(S, F, *[nn.Projection(jnp.ones((2, 2, 3)))] * 3)",
    "attention_step": "nn.attention_step(F, nn.KVCache.empty((n,), 4, 2, 3), pattern.causal(4), **projections)",
}  # fmt: skip

OF_GRAPH = {
    "add_self_loops": "graph.add_self_loops(S)", "coalesce": "graph.coalesce(S)", "degree": "graph.degree(S)",
    "batch": "graph.batch([S, S]), graph.unbatch(graph.batch([S, S])), graph.batch([S], nodes=n + 2, nse=3, size=2)",
    "batched_negative_sampling": "graph.batched_negative_sampling(k, graph.batch([S, S]), 2)",
    "from_edge_index": "graph.from_edge_index(np.zeros((2, 0), int), nodes=n)",
    "from_edges": "graph.from_edges([], [], nodes=n), graph.from_edges([], [], shape=(n, m))",
    "hetero_batch": "graph.hetero_batch([{('a', 'to', 'b'): A}] * 2)",
    "k_hop_subgraph": "graph.k_hop_subgraph([], 2, S), graph.k_hop_subgraph([], 1, S, True)",
    "knn_graph": "graph.knn_graph(X, 1), graph.knn_graph(X, 2, loop=True), graph.knn_graph(F, 1, number)",
    "negative_sampling": "graph.negative_sampling(k, A, 2), graph.negative_sampling(k, S, 2), "
                         "graph.negative_sampling(k, jsparse.zeros((2, 3)), 4), "
                         "graph.negative_sampling(k, jsparse.zeros((2, 3)).dynamic(2), 4)",
    "normalize": "graph.normalize(S), graph.normalize(S, 'row')", "permute": "graph.permute(S, np.arange(n))",
    "radius_graph": "graph.radius_graph(X, 1.0), graph.radius_graph(X, 1.0, None, True, None), "
                    "graph.radius_graph(F, 1.0, number)",
    "random_link_split": "graph.random_link_split(k, S)", "remove_self_loops": "graph.remove_self_loops(S)",
    "reorder": "graph.reorder(S)", "sample_links": "graph.sample_links(k, S, np.zeros((2, 0), int), [2])",
    "sample_neighbors": "graph.sample_neighbors(k, S, np.zeros(0, int), 2), "
                        "graph.sample_neighbors(k, jsparse.zeros((3, 3)), np.arange(3), 2)",
    "structured_negative_sampling": "graph.structured_negative_sampling(k, S)", "subgraph": "graph.subgraph([], S)",
    "symmetrize": "graph.symmetrize(S), graph.symmetrize(S, 'mean')", "to_edges": "graph.to_edges(S)",
    "unbatch": "graph.unbatch(graph.batch([S]))",
}  # fmt: skip

OF_PATTERN = {
    "block_diagonal": "pattern.block_diagonal([n, n], [m, m]), pattern.block_diagonal([])",
    "butterfly": "pattern.butterfly(n)", "causal": "pattern.causal(n), pattern.causal(n, m, before=1)",
    "from_blocks": "pattern.from_blocks(X > 0, 2)", "from_mask": "pattern.from_mask(X > 0)",
    "full": "pattern.full((n, m))",
    "global_": "pattern.global_(n, []), pattern.global_(n, [], m)",
    "random_blocks": "pattern.random_blocks(k, n, 2, 0, m), pattern.random_blocks(k, n, 2, 1)",
    "strided": "pattern.strided(n, 2)", "window": "pattern.window(n, 1), pattern.window(n, 1, m=m)",
}  # fmt: skip


def parts_of(texts):
    """The expressions that commas separate."""
    body = ast.parse(texts, mode="eval").body
    return [ast.unparse(part) for part in (body.elts if isinstance(body, ast.Tuple) else [body])]


MODULES = {jsparse: OF_TENSORS, nn: OF_NN, graph: OF_GRAPH, pattern: OF_PATTERN}
CALLS = [call for calls in MODULES.values() for texts in calls.values() for call in parts_of(texts)]


class OfJax:
    """JAX's functions by the names of jsparse."""

    def __getattr__(self, name):
        return next(getattr(module, name) for module in (jnp, jax.nn, jax.scipy.special) if hasattr(module, name))


def dense_names(shape):
    """The operands that the calls name, as dense arrays."""
    n, m = shape
    X, S = jnp.zeros(shape), jnp.zeros((n, n))
    return {
        "A": X, "D": X, "S": S, "I": X.astype(int), "X": X, "Y": jnp.zeros((2, n)), "v": jnp.zeros(n),
        "w": jnp.zeros(m), "F": jnp.ones((n, 2)), "n": n, "m": m, "jsparse": OfJax(), "jnp": jnp, "np": np,
    }  # fmt: skip


def names_of(shape, dynamic):
    """The operands that the calls name, and modules."""
    n, X = shape[0], np.zeros(shape, np.float32)
    A, S = (jsparse.asarray(x, dynamic=dynamic, nse=2 if dynamic else None) for x in (X, np.zeros((n, n), np.float32)))
    projection = nn.Projection(jnp.ones((2, 2, 3)))
    projections = dict.fromkeys(("query", "key", "value"), projection) | {"out": nn.Projection(jnp.ones((2, 3, 2)))}
    return dense_names(shape) | {
        "A": A, "S": S, "P": S.pattern, "I": A.astype(np.int32), "number": jnp.zeros(n, int), "k": jax.random.key(0),
        "D": jsparse.asarray(X, "(i, j) -> (i : dense, j : dense)"), "R": jsparse.zeros((2, n, n)),
        "mesh": jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,)),
        "projections": projections, "jsparse": jsparse, "nn": nn, "graph": graph, "pattern": pattern,
    }  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_every_public_function_has_a_call(module):
    functions = {name: getattr(module, name) for name in getattr(module, "__all__", dir(module)) if name[0] != "_"}
    public = {name for name, f in functions.items() if callable(f) and not inspect.isclass(f)}
    assert public - NOT_CALLED <= set(MODULES[module])


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("call", CALLS)
def test_results(call, shape, dynamic):
    try:
        found = eval(call, names_of(shape, dynamic))
    except JsparseError:
        return
    for x in jax.tree.leaves(found, is_leaf=lambda x: isinstance(x, jsparse.SparseTensor)):
        if isinstance(x, jsparse.SparseTensor):
            x.validate()
    try:
        expected = eval(call, dense_names(shape))
    except Exception:  # JAX has no such function or arguments, or refuses the sizes
        return
    whole = found.todense() if isinstance(found, jsparse.SparseTensor) else found
    if isinstance(whole, jax.Array):
        np.testing.assert_array_equal(whole, expected)
        assert whole.dtype == expected.dtype


@pytest.mark.parametrize("dynamic", [False, True])
def test_layers_without_inputs_give_their_bias(dynamic):
    bias = np.arange(6, dtype=np.float32)
    W = jsparse.zeros((0, 6))
    W = W.dynamic(2) if dynamic else W
    np.testing.assert_array_equal(nn.linear(jnp.ones((2, 3, 0)), W, bias), np.broadcast_to(bias, (2, 3, 6)))
    assert nn.linear(jnp.ones((0, 6)), W.T).shape == (0, 0)
    format = "(i, j, k, l) -> (i : dense, j : compressed, k : dense, l : dense)"
    for shape in [(0, 2, 4, 3), (2, 2, 0, 3)]:
        blocks = jsparse.asarray(np.zeros(shape, np.float32), format)
        np.testing.assert_array_equal(nn.block_linear(jnp.ones((2, 0)), blocks, bias), np.stack([bias, bias]))


@pytest.mark.parametrize("count, expected", [(4, 4), (6, 6), (9, 6)])
def test_all_pairs_of_a_bipartite_graph_without_edges_are_absent(count, expected):
    for A in (jsparse.zeros((2, 3)), jsparse.zeros((2, 3)).dynamic(0), jsparse.zeros((2, 3)).dynamic(4)):
        source, target = graph.negative_sampling(jax.random.key(0), A, count)
        pairs = set(zip(source.tolist(), target.tolist(), strict=True)) - {(3, 2)}  # filled up with these
        assert len(pairs) == expected
        assert pairs <= {(j, i) for i in range(2) for j in range(3)}


@pytest.mark.parametrize("loop", [False, True])
def test_graphs_of_points_without_dimensions(loop):
    """All points are equal."""
    points, expected = np.zeros((4, 0), np.float32), np.ones((4, 4)) - (0 if loop else np.eye(4))
    np.testing.assert_array_equal(graph.knn_graph(points, 4 if loop else 3, loop=loop).todense(), expected)
    np.testing.assert_array_equal(graph.radius_graph(points, 0.5, None, loop).todense(), expected)
    np.testing.assert_array_equal(graph.radius_graph(points, 0.5, None, loop, None).todense(), expected)
    for k in (1, 5):
        assert graph.knn_graph(np.zeros((0, 3)), k, loop=loop).shape == (0, 0)
        assert graph.knn_graph(np.zeros((0, 3)), k, np.zeros(0, int), loop=loop).shape == (0, 0)
