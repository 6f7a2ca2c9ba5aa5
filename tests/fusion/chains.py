"""Random chains of operations on one to three patterns, as a user writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jsparse
from jsparse import Pattern, SparseTensor

__all__ = ["RandomChain", "random_chain"]

WIDE = {"i": 18, "d": 36}  # several vectors of rows, and of columns, in every fifth chain
SIZES = {"i": (5, 10), "j": (4, 10), "k": (3, 6), "d": (2, 5), "e": (2, 4), "h": (2, 4)}
PRIMES = (11, 13, 17, 19)
MATRICES, TREES = ("csr", "csc", "coo", "dcsr", "dcsc"), ("csf", "coo")
SMOOTH: dict[str, Callable[[Any], Any]] = {
    "gelu": jsparse.gelu,
    "sigmoid": jsparse.sigmoid,
    "tanh": jsparse.tanh,
    "exp(tanh)": lambda A: jsparse.exp(jsparse.tanh(A)),
    "x / (1 + x * x)": lambda A: A.map(lambda x: x / (1 + x * x)),
    "* 0.25": lambda A: A * 0.25,
}
KINKED: dict[str, Callable[[Any], Any]] = {
    "relu": jsparse.relu,
    "leaky_relu": jsparse.leaky_relu,
    "abs - 0.5": lambda A: A.map(lambda x: jnp.abs(x) - 0.5),
}
DENSE: dict[str, Callable[[Any], Any]] = {
    "sigmoid": jax.nn.sigmoid,
    "tanh": jnp.tanh,
    "* 0.5": lambda x: x * 0.5,
}
ROWS: dict[str, Callable[[Any], Any]] = {
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "standardize": jax.nn.standardize,
}
Env = dict[str, Any]
Step = Callable[[Env], Any]


@dataclass(frozen=True)
class Made:
    """A value of a chain: the letters of its axes, and the number of its pattern; None of an array."""

    name: str
    letters: str
    on: int | None = None


@dataclass
class RandomChain:
    """A chain: `f(x, tensors)` for a dictionary of float arrays, and the tensors whose patterns it uses.

    Attributes:
        seed: the numbers that it was drawn from.
        dtype: of the arrays.
        arrays: the arrays, in float64.
        tensors: a tensor for each pattern; the chain uses its pattern only.
        counts: the number of stored entries of each, without the dense level behind: a prime that no size has.
        steps: the value's name, the operation's text, and the operation.
        results: the names of the results.
        heads: the arrays that have a leading axis of heads, over which `f` is mapped; None if it is not.
        smooth: whether its derivatives are continuous.
    """

    seed: tuple[int, int]
    dtype: str
    smooth: bool
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    tensors: list[SparseTensor] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    steps: list[tuple[str, str, Step]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    heads: frozenset[str] | None = None

    @property
    def text(self) -> str:
        """The chain as lines of a program."""
        patterns = [f"P{n} = {tensor.pattern}" for n, tensor in enumerate(self.tensors)]
        shapes = [f"{name}: {x.shape}" for name, x in self.arrays.items()]
        lines = [f"{name} = {text}" for name, text, _ in self.steps]
        mapped = [] if self.heads is None else [f"vmap over {', '.join(sorted(self.heads))}"]
        whole = [f"chain {self.seed}, {self.dtype}", *patterns, *shapes, *lines, *mapped]
        return "\n".join([*whole, f"return {', '.join(self.results)}"])

    def __str__(self) -> str:
        return self.text

    def operands(self, dtype: str) -> dict[str, jax.Array]:
        """The arrays in a dtype."""
        return {name: jnp.asarray(x, self.dtype).astype(dtype) for name, x in self.arrays.items()}

    def __call__(self, x: dict[str, jax.Array], tensors: list[SparseTensor]) -> list[Any]:
        """The results as arrays, of tensors the values."""
        return self.computed(x, tensors, lambda A: A.values)

    def computed(
        self, x: dict[str, jax.Array], tensors: list[SparseTensor], array: Callable[[SparseTensor], Any]
    ) -> list[Any]:
        """The results as arrays: `array(A)` of a tensor A."""
        one = partial(self._one, array)
        if self.heads is None:
            return one(x, tensors)
        axes = {name: 0 if name in self.heads else None for name in x}
        return jax.vmap(one, (axes, None))(x, tensors)

    def _one(self, array: Any, x: dict[str, jax.Array], tensors: list[SparseTensor]) -> list[Any]:
        env: Env = {**x, **{f"P{n}": tensor for n, tensor in enumerate(tensors)}}
        for name, _, step in self.steps:
            env[name] = step(env)
        found = [env[name] for name in self.results]
        return [array(y) if isinstance(y, SparseTensor) else y for y in found]

    @property
    def has_entries(self) -> bool:
        """Whether an operand or a result has an element for each stored entry."""
        return any(n.startswith("V") for n in self.arrays) or any(n.startswith("S") for n in self.results)


def _flat(x: jax.Array) -> jax.Array:
    """A function of the last two axes as one."""
    flat = x.reshape(*x.shape[:-2], -1)
    return (jnp.tanh(flat) * jax.lax.rsqrt(1 + (flat**2).mean(-1, keepdims=True))).reshape(x.shape)


def random_chain(seed: int, number: int) -> RandomChain:
    """Draw a chain of two to eight operations."""
    return _Draw((seed, number)).chain()


class _Draw:
    def __init__(self, seed: tuple[int, int]) -> None:
        self.rng = np.random.default_rng(seed)
        self.sizes = {v: int(self.rng.integers(*ends)) for v, ends in SIZES.items()}
        if seed[1] % 5 == 4:
            self.sizes |= WIDE
        if self.chance(0.15):
            self.sizes[self.pick("jdeh")] = 1
        dtype = self.pick(("float32", "float32", "float64", "bfloat16"))
        self.made = RandomChain(seed, dtype, dtype == "bfloat16" or self.chance(0.4))
        self.letters: list[str] = []
        self.values: list[Made] = []
        self.reads: list[tuple[str, ...]] = []

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chain(self) -> RandomChain:
        for _ in range(int(self.pick((1, 1, 1, 2, 2, 3)))):
            self.pattern()
        self.sampled()
        count = int(self.rng.integers(2, 9))
        while len(self.made.steps) < count:
            self.step()
        self.choose_results()
        if not any("h" in letters for letters in self.letters) and self.chance(0.3):
            self.map_heads()
        return self.made

    def choose_results(self) -> None:
        """Return what nothing reads, or what is dense of it, and now and then something else."""
        read = {name for names in self.reads for name in names}
        dense = bool(self.values_of(False)) and self.chance(0.5)
        self.made.results = [v.name for v in self.values if v.name not in read and not (dense and v.on is not None)][
            -3:
        ]
        self.made.results = self.made.results or [self.values_of(False)[-1].name]
        if self.chance(0.15):
            self.made.results = list(dict.fromkeys([*self.made.results, self.pick(self.values).name]))

    def pattern(self) -> None:
        """Add a pattern: of the same index variables as the first, mostly."""
        letters = (
            self.letters[0].replace("h", "") if self.letters and self.chance(0.8) else self.pick(("ij",) * 4 + ("ijk",))
        )
        format = self.pick(MATRICES if len(letters) == 2 else TREES)
        shape, nse = [self.sizes[v] for v in letters], self.pick(PRIMES)
        nse = nse if nse < np.prod(shape) else int(np.prod(shape))
        flat = np.sort(self.rng.choice(int(np.prod(shape)), nse, replace=False))
        pattern = Pattern.from_coordinates(np.stack(np.unravel_index(flat, shape)), shape, format)[0]
        if self.letters[:1] == [letters + "h"] or (not self.letters and self.chance(0.25)):
            pattern, letters = pattern.extended([self.sizes["h"]]), letters + "h"
        tensor = SparseTensor(jnp.zeros(pattern.nse, jnp.float32), pattern)
        self.made.tensors.append(tensor.dynamic(tensor.nse) if self.chance(0.2) else tensor)
        self.made.counts += [nse] if nse in PRIMES else []
        self.letters.append(letters)

    def array(self, letters: str) -> Made:
        """A dense operand: one that is there, mostly new."""
        known = [n for n in self.made.arrays if n.startswith("X") and n.split("_")[1] == letters]
        name = self.pick(known) if known and self.chance(0.3) else f"X{len(self.made.arrays)}_{letters}"
        if name not in self.made.arrays:
            self.made.arrays[name] = self.rng.uniform(-1, 1, [self.sizes[v] for v in letters])
        return Made(name, letters)

    def add(self, kind: str, letters: str, on: int | None, text: str, reads: tuple[str, ...], step: Step) -> None:
        made = Made(f"{kind}{len(self.made.steps)}", letters, on)
        self.made.steps.append((made.name, text, step))
        self.values.append(made)
        self.reads.append(reads)

    def step(self) -> None:
        sparse, dense = self.values_of(True), self.values_of(False)
        kinds: list[Callable[[], None]] = [self.sampled]
        if sparse:
            kinds += [self.function, self.function, self.softmax, self.reduce, self.reduce, self.scale, self.scale]
            kinds += [self.multiply, self.multiply, self.combine, self.given]
        if dense:
            kinds += [self.epilogue, self.epilogue, self.sum_dense, self.project]
        self.pick(kinds)()

    def values_of(self, sparse: bool) -> list[Made]:
        return [v for v in self.values if (v.on is not None) == sparse]

    def sparse(self) -> Made:
        """A value on a pattern, mostly the last one."""
        found = self.values_of(True)
        return found[-1] if self.chance(0.7) else self.pick(found)

    def sampled(self) -> None:
        """A product that is computed on a pattern's entries."""
        on = int(self.rng.integers(len(self.letters)))
        letters, behind = self.letters[on], "h" if "h" in self.letters[on] else ""
        core = letters.removesuffix("h")
        inner = self.pick(("", "d", "d", "d"))
        left, right = core[0] + behind + inner, core[1:] + (behind if self.chance(0.8) else "") + inner
        x, y = self.array(left), self.array(right)
        text, at = f"{left},{right}->{letters}", f"P{on}"
        self.add(
            "S", letters, on, f"einsum({text!r}, {x.name}, {y.name}) on {at}", (x.name, y.name),
            lambda env: jsparse.einsum(text, env[x.name], env[y.name], out_format=env[at].pattern),
        )  # fmt: skip

    def given(self) -> None:
        """A tensor of values that are an operand, times another on the same pattern."""
        a = self.sparse()
        name = f"V{len(self.made.arrays)}_{a.on}"
        tensor = self.made.tensors[a.on]
        values = self.rng.uniform(-1, 1, tensor.nse)
        self.made.arrays[name] = values
        self.add(
            "S", a.letters, a.on, f"multiply({a.name}, {name})", (a.name,),
            lambda env: jsparse.multiply(env[a.name], env[a.name].with_values(env[name])),
        )  # fmt: skip

    def function(self) -> None:
        a = self.sparse()
        known = SMOOTH if self.made.smooth else {**SMOOTH, **KINKED}
        name = self.pick(tuple(known))
        self.add("S", a.letters, a.on, f"{a.name} {name}", (a.name,), lambda env: known[name](env[a.name]))

    def axes(self, letters: str) -> tuple[int, ...]:
        """Some axes of a tensor; not those of heads."""
        core = len(letters.removesuffix("h"))
        count = int(self.rng.integers(1, core + (1 if self.chance(0.3) else 0)))
        return tuple(sorted(self.rng.choice(core, count, replace=False).tolist()))

    def softmax(self) -> None:
        a = self.sparse()
        axes = self.axes(a.letters)
        self.add(
            "S", a.letters, a.on, f"softmax({a.name}, {axes})", (a.name,),
            lambda env: jsparse.softmax(env[a.name], axes),
        )  # fmt: skip

    def reduce(self) -> None:
        a = self.sparse()
        axes = self.axes(a.letters)
        kinds: dict[str, Callable[[Any], Any]] = {
            "sum": lambda A: A.sum(axes, out_format="dense"),
            "mean": lambda A: A.mean(axes, stored=True),
            "logsumexp": lambda A: jnp.tanh(jnp.maximum(jsparse.logsumexp(A, axes), -3)),
        }
        if not self.made.smooth:
            kinds["max"] = lambda A: jnp.maximum(A.max(axes, stored=True), -1)
        name = self.pick(tuple(kinds))
        letters = "".join(v for n, v in enumerate(a.letters) if n not in axes)
        self.add("D", letters, None, f"{name}({a.name}, {axes})", (a.name,), lambda env: kinds[name](env[a.name]))

    def scale(self) -> None:
        """A product with a dense array at each stored entry."""
        a = self.sparse()
        fitting = [v for v in self.values_of(False) if v.letters and set(v.letters) <= set(a.letters)]
        kept = "".join(v for v in a.letters if self.chance(0.5)) or a.letters[0]
        x = self.pick(fitting) if fitting and self.chance(0.7) else self.array(kept)
        text = f"{a.letters},{x.letters}->{a.letters}"
        self.add(
            "S", a.letters, a.on, f"einsum({text!r}, {a.name}, {x.name})", (a.name, x.name),
            lambda env: jsparse.einsum(text, env[a.name], env[x.name]),
        )  # fmt: skip

    def multiply(self) -> None:
        """A product of a tensor and a dense array, which is dense."""
        a = self.sparse()
        core, behind = a.letters.removesuffix("h"), "h" if "h" in a.letters else ""
        summed = core[-1] if self.chance(0.7) else core[0]
        fitting = [
            v for v in self.values_of(False) if summed in v.letters and set(v.letters) <= {*summed, *behind, "d", "e"}
        ]
        x = (
            self.pick(fitting)
            if fitting and self.chance(0.5)
            else self.array(summed + behind + self.pick(("", "d", "e")))
        )
        kept = core.replace(summed, "")
        target = kept + "".join(v for v in (behind + x.letters) if v != summed and v not in kept)
        target = "".join(dict.fromkeys(target))
        text = f"{a.letters},{x.letters}->{target}"
        self.add(
            "D", target, None, f"einsum({text!r}, {a.name}, {x.name})", (a.name, x.name),
            lambda env: jsparse.einsum(text, env[a.name], env[x.name], out_format="dense"),
        )  # fmt: skip

    def combine(self) -> None:
        """A sum or a product of two tensors on one pattern."""
        a = self.sparse()
        b = self.pick([v for v in self.values_of(True) if v.on == a.on])
        name, f = self.pick((("+", jsparse.add), ("-", jsparse.subtract), ("*", jsparse.multiply)))
        self.add(
            "S", a.letters, a.on, f"{a.name} {name} {b.name}", (a.name, b.name),
            lambda env: f(env[a.name], env[b.name]),
        )  # fmt: skip

    def epilogue(self) -> None:
        """An elementwise function of a dense value, with a bias, a residual or a normalisation."""
        x = self.values_of(False)[-1]
        kinds = ["function", "bias", "residual", "divide"]
        kinds += ["relu"] if not self.made.smooth else []
        kinds += ["normalise", "flat"] if len(x.letters) > 1 else []
        kind = self.pick(kinds)
        if kind == "function":
            functions = DENSE | ROWS if x.letters else DENSE
            name = self.pick(tuple(functions))
            self.add("D", x.letters, None, f"{x.name} {name}", (x.name,), lambda env: functions[name](env[x.name]))
        elif kind == "relu":
            self.add("D", x.letters, None, f"relu({x.name})", (x.name,), lambda env: jax.nn.relu(env[x.name]))
        elif kind == "divide":
            self.add("D", x.letters, None, f"1 / (1 + {x.name}²)", (x.name,), lambda env: 1 / (1 + env[x.name] ** 2))
        elif kind == "normalise":
            self.add(
                "D", x.letters, None, f"{x.name} / norm", (x.name,),
                lambda env: env[x.name] * jax.lax.rsqrt(1 + (env[x.name] ** 2).mean(-1, keepdims=True)),
            )  # fmt: skip
        elif kind == "flat":
            self.add(
                "D", x.letters, None, f"{x.name}, its last axes as one, / norm", (x.name,),
                lambda env: _flat(env[x.name]),
            )  # fmt: skip
        else:
            y = self.array(x.letters[-1:] if kind == "bias" else x.letters)
            self.add("D", x.letters, None, f"{x.name} + {y.name}", (x.name,), lambda env: env[x.name] + env[y.name])

    def project(self) -> None:
        """A product with a dense matrix."""
        x = self.values_of(False)[-1]
        new = {"d": "e", "e": "d"}.get(x.letters[-1:])
        if new is None or new in x.letters:
            return
        w, target = self.array(x.letters[-1] + new), x.letters[:-1] + new
        self.add("D", target, None, f"{x.name} @ {w.name}", (x.name,), lambda env: env[x.name] @ env[w.name])

    def sum_dense(self) -> None:
        x = self.pick(self.values_of(False))
        if not x.letters:
            return
        axis = int(self.rng.integers(len(x.letters)))
        letters = x.letters[:axis] + x.letters[axis + 1 :]
        self.add("D", letters, None, f"{x.name}.sum({axis})", (x.name,), lambda env: env[x.name].sum(axis))

    def map_heads(self) -> None:
        """Map over a leading axis of some of the arrays."""
        names = [n for n in self.made.arrays if self.chance(0.8)] or list(self.made.arrays)[:1]
        count = int(self.pick((2, 3, 8)))
        for name in names:
            shape = (count, *self.made.arrays[name].shape)
            self.made.arrays[name] = self.rng.uniform(-1, 1, shape)
        self.made.heads = frozenset(names)
