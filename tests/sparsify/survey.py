"""Functions of libraries that users apply to arrays, applied to a sparse matrix of 64 rows and 48 columns.

A row is the library's name and a function of its module and of the matrix. Functions whose results differ from 0 where
nothing is stored are used as models use them: in a product, in a sum, or at stored entries.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jsparse

__all__ = ["AS_LARGE", "DENSE", "REFUSED", "ROWS"]

RNG = np.random.default_rng(0)
STORED = RNG.random((64, 48)) < 0.1
DENSE = jnp.asarray(np.where(STORED, RNG.normal(size=(64, 48)), 0), jnp.float32)
W = jnp.asarray(RNG.normal(size=(48, 6)), jnp.float32)
Y = jnp.asarray(RNG.random((64, 48)), jnp.float32)
SIGNS = jnp.where(Y > 0.5, 1.0, -1.0)
LABELS = jnp.arange(64) % 48
KEY = jax.random.key(0)


def at_entries(f):
    return lambda m, A: jnp.where(A != 0, f(m, A), 0)


def then_product(f):
    return lambda m, A: f(m, A) @ W


def named(names, wrapped=lambda f: f):
    return {name: wrapped(lambda m, A, name=name: getattr(m, name)(A)) for name in names.split()}


NN = {
    **named("relu relu6 gelu silu elu selu celu leaky_relu soft_sign hard_tanh hard_swish mish tanh swish hard_silu"),
    **named("sigmoid log_sigmoid softplus hard_sigmoid sparse_sigmoid squareplus softmax log_softmax", then_product),
    "standardize": then_product(lambda m, A: m.standardize(A, epsilon=1e-3)),
    "softmax of entries": lambda m, A: m.softmax(A, where=A != 0),
    "sparse_plus": at_entries(lambda m, A: m.sparse_plus(A)),
    "logsumexp": lambda m, A: m.logsumexp(A, axis=1),
    "glu": lambda m, A: m.glu(A) @ W[:24],
}
SPECIAL = {
    **named("erf log_ndtr ndtr expit erfc i0 i0e", at_entries),
    **named("erf i1 i1e"),
    "entr": lambda m, A: m.entr(jnp.abs(A)),
    "xlogy": lambda m, A: m.xlogy(A, jnp.abs(A) + 1),
    "xlog1py": lambda m, A: m.xlog1py(A, Y),
    "logsumexp": lambda m, A: m.logsumexp(A, axis=0),
    "rel_entr": lambda m, A: m.rel_entr(jnp.abs(A), Y),
    "kl_div": lambda m, A: m.kl_div(jnp.abs(A), Y).sum(),
    "gammaln": at_entries(lambda m, A: m.gammaln(jnp.abs(A))),
    "digamma": at_entries(lambda m, A: m.digamma(jnp.abs(A) + 1)),
}
NUMPY = {
    **named("var std mean max nansum ptp average cov corrcoef ravel count_nonzero"),
    "var of entries": lambda m, A: m.var(A, 1, where=A != 0),
    "norm": lambda m, A: (m.linalg.norm(A), m.linalg.norm(A, axis=1), m.linalg.norm(A, 1), m.linalg.norm(A, m.inf)),
    "cumsum": lambda m, A: A * m.cumsum(A, axis=1),
    "sort": lambda m, A: m.sort(A),
    "clip": lambda m, A: m.clip(A, -1, 0.5),
    "take_along_axis": lambda m, A: m.take_along_axis(A, LABELS[:, None], 1),
}
LAX = {
    "top_k": lambda m, A: m.top_k(A, 3),
    "rsqrt": at_entries(lambda m, A: m.rsqrt(jnp.abs(A))),
    "reduce_precision": lambda m, A: m.reduce_precision(A, 8, 10),
    "cummax": lambda m, A: A * m.cummax(A, 1),
}
OPS = {name: lambda m, A, name=name: getattr(m, name)(A, LABELS, 48) for name in ("segment_sum", "segment_max")}
OPTAX = {
    "l2_loss": lambda m, A: m.l2_loss(A),
    "huber_loss": lambda m, A: m.huber_loss(A),
    "log_cosh": lambda m, A: m.log_cosh(A),
    "squared_error": lambda m, A: m.squared_error(A, Y).mean(),
    "cosine_similarity": lambda m, A: m.cosine_similarity(A, Y).mean(),
    "cosine_distance": lambda m, A: m.cosine_distance(A, W[:, 0]),
    "sigmoid_binary_cross_entropy": lambda m, A: m.sigmoid_binary_cross_entropy(A, Y).mean(),
    "softmax_cross_entropy": lambda m, A: m.softmax_cross_entropy(A, Y / Y.sum(1, keepdims=True)).mean(),
    "softmax_cross_entropy of a tensor": lambda m, A: m.softmax_cross_entropy(A, jnp.abs(A)),
    "integer labels": lambda m, A: m.softmax_cross_entropy_with_integer_labels(A, LABELS),
    "safe_softmax_cross_entropy": lambda m, A: m.safe_softmax_cross_entropy(A, Y).mean(),
    "poly_loss_cross_entropy": lambda m, A: m.losses.poly_loss_cross_entropy(A, Y).mean(),
    "sigmoid_focal_loss": lambda m, A: m.sigmoid_focal_loss(A, Y).mean(),
    "kl_divergence": lambda m, A: m.kl_divergence(jax.nn.log_softmax(A), Y),
    "hinge_loss": lambda m, A: m.hinge_loss(A, SIGNS).mean(),
    "perceptron_loss": lambda m, A: m.losses.perceptron_loss(A, SIGNS).mean(),
    "ranking_softmax_loss": lambda m, A: m.losses.ranking_softmax_loss(A, Y),
    "dice_loss": lambda m, A: m.losses.dice_loss(A, Y),
    "tree.norm": lambda m, A: m.tree.norm({"A": A, "W": W}),
    "safe_norm": lambda m, A: m.safe_norm(A, 1e-6),
    "smooth_labels": lambda m, A: m.smooth_labels(jnp.abs(A), 0.1).sum(1),
}


def applied(make):
    """A module of linen with its own parameters."""
    return lambda m, A: (layer := make(m)).apply(layer.init(KEY, DENSE), A)


def normalized(m, A):
    layer = m.BatchNorm(use_running_average=False)
    found, updates = layer.apply(layer.init(KEY, DENSE), A, mutable=["batch_stats"])
    return jnp.where(A != 0, found, 0), updates


LINEN = {
    "Dense": applied(lambda m: m.Dense(5)),
    "DenseGeneral": applied(lambda m: m.DenseGeneral((3, 4))),
    "Einsum": applied(lambda m: m.Einsum((48, 3), "ij,jk->ik")),
    "LayerNorm": at_entries(applied(lambda m: m.LayerNorm())),
    "LayerNorm, Dense": applied(lambda m: m.Sequential([m.LayerNorm(), m.Dense(4)])),
    "RMSNorm": applied(lambda m: m.RMSNorm()),
    "BatchNorm": normalized,
    "GroupNorm": at_entries(applied(lambda m: m.GroupNorm(num_groups=4))),
    "PReLU": applied(lambda m: m.PReLU()),
    "Dropout": lambda m, A: m.Dropout(0.5, deterministic=False).apply({}, A, rngs={"dropout": KEY}),
    "Sequential": applied(lambda m: m.Sequential([m.Dense(4), m.relu, m.Dense(2)])),
}
NNX = {
    "Linear": lambda m, A: m.Linear(48, 5, rngs=m.Rngs(0))(A),
    "LinearGeneral": lambda m, A: m.LinearGeneral(48, (2, 3), rngs=m.Rngs(0))(A),
    "LayerNorm": at_entries(lambda m, A: m.LayerNorm(48, rngs=m.Rngs(0))(A)),
    "RMSNorm": lambda m, A: m.RMSNorm(48, rngs=m.Rngs(0))(A),
    "GroupNorm": at_entries(lambda m, A: m.GroupNorm(48, num_groups=4, rngs=m.Rngs(0))(A)),
    "BatchNorm": then_product(lambda m, A: m.BatchNorm(48, use_running_average=True, rngs=m.Rngs(0))(A)),
    "PReLU": lambda m, A: m.PReLU()(A),
}
EQUINOX = {
    "Linear": lambda m, A: jax.vmap(m.nn.Linear(48, 5, key=KEY))(A),
    "MLP": lambda m, A: jax.vmap(m.nn.MLP(48, 3, 16, 2, key=KEY))(A),
    "LayerNorm": at_entries(lambda m, A: jax.vmap(m.nn.LayerNorm(48))(A)),
    "RMSNorm": lambda m, A: jax.vmap(m.nn.RMSNorm(48, use_bias=False))(A),
    "GroupNorm": at_entries(lambda m, A: jax.vmap(m.nn.GroupNorm(4, 48))(A)),
    "PReLU": lambda m, A: m.nn.PReLU(0.1)(A),
    "GRUCell": lambda m, A: jax.vmap(lambda row: m.nn.GRUCell(48, 4, key=KEY)(row, jnp.zeros(4)))(A),
    "Dropout": lambda m, A: m.nn.Dropout(0.5)(A, key=KEY),
}
ROWS = {
    (library, name): row
    for library, rows in {
        "jax.nn": NN,
        "jax.scipy.special": SPECIAL,
        "jax.numpy": NUMPY,
        "jax.lax": LAX,
        "jax.ops": OPS,
        "optax": OPTAX,
        "flax.linen": LINEN,
        "flax.nnx": NNX,
        "equinox": EQUINOX,
    }.items()
    for name, row in rows.items()
}
AS_LARGE = {
    "jax.scipy.special": {"xlog1py", "rel_entr", "kl_div"},
    "optax": {
        "squared_error",
        "cosine_similarity",
        "sigmoid_binary_cross_entropy",
        "softmax_cross_entropy",
        "safe_softmax_cross_entropy",
        "poly_loss_cross_entropy",
        "sigmoid_focal_loss",
        "kl_divergence",
        "hinge_loss",
        "perceptron_loss",
        "ranking_softmax_loss",
        "dice_loss",
    },
    "flax.linen": {"Dropout"},
    "equinox": {"Dropout"},
}
"""The functions with another operand of the matrix's shape: labels, or the mask of a dropout."""

DENSE_RESULT = (jsparse.PatternError, "may differ from 0|is [0-9.]+ there")
REFUSED = {
    ("jax.nn", "softplus"): (lambda m, A: m.softplus(A), *DENSE_RESULT),
    ("jax.nn", "softmax"): (lambda m, A: m.softmax(A), *DENSE_RESULT),
    ("jax.nn", "standardize"): (lambda m, A: m.standardize(A), *DENSE_RESULT),
    ("jax.scipy.special", "erfc"): (lambda m, A: m.erfc(A), *DENSE_RESULT),
    ("jax.numpy", "cumsum"): (lambda m, A: m.cumsum(A, 1), jsparse.PatternError, "'cumsum'.*select elements|select"),
    ("jax.numpy", "median"): (lambda m, A: m.median(A, 1), jsparse.PatternError, "'sort'.*may differ from 0"),
    ("jax.numpy", "argsort"): (lambda m, A: m.argsort(A), jsparse.NotYetSupportedError, "'sort'.*top_k"),
    ("jax.numpy", "histogram"): (lambda m, A: m.histogram(A), jsparse.NotYetSupportedError, "of histogram"),
    ("jax.numpy", "svd"): (lambda m, A: m.linalg.svd(A), jsparse.NotYetSupportedError, "'svd'"),
    ("flax.linen", "LayerNorm"): (applied(lambda m: m.LayerNorm()), jsparse.PatternError, "of LayerNorm"),
}
