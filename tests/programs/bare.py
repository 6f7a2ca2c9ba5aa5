"""Random programs in which some sparse operands are patterns without values."""

from __future__ import annotations

from dataclasses import dataclass, fields

import jax
import jax.numpy as jnp
import numpy as np
from programs.generate import random_program
from programs.program import Program, SparseOperand, is_wide, promoted

import jsparse

__all__ = ["BareProgram", "random_bare"]


@dataclass(frozen=True)
class BareOperand(SparseOperand):
    """The pattern of a sparse operand, which stands for `one` at each of its elements."""

    one: int = 1

    @property
    def array(self) -> np.ndarray:
        """The dense array that the pattern stands for."""
        return self.stored.astype(np.int64) * self.one

    def taken(self, tensor: jsparse.SparseTensor) -> object:
        """What the program takes in place of the tensor."""
        return tensor.pattern

    def source(self) -> str:
        """The Python expression that makes the operand."""
        return f"{super().source()}.pattern"


class BareProgram(Program):
    """A program with patterns. They promote nothing, and a product of them alone counts."""

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the result."""
        valued = [x for x in self.operands if not isinstance(x, BareOperand)]
        if valued:
            return promoted(valued, self.needs_x64)
        with jax.enable_x64(self.needs_x64):
            return np.dtype(bool) if self.ring.multiply == "&" else np.dtype(jnp.result_type(int))

    @property
    def needs_x64(self) -> bool:
        """Whether JAX must keep 64-bit dtypes."""
        named = [*self.operands, *([self.out_format] if isinstance(self.out_format, SparseOperand) else [])]
        return any(is_wide(x.dtype) for x in named if not isinstance(x, BareOperand))

    def __str__(self) -> str:
        return super().__str__().partition("\nwant = ")[0]  # numpy's einsum takes no patterns


def random_bare(*seed: int) -> BareProgram:
    """The program of a seed, where some sparse operands, at least one, are patterns; all of them in a third."""
    program, rng = random_program(*seed), np.random.default_rng((*seed, 5))
    sparse = [n for n, x in enumerate(program.operands) if isinstance(x, SparseOperand)]
    share = rng.choice([0.4, 0.7, 1.0])
    chosen = {n for n in sparse if rng.random() < share} or set(sparse[:1])
    given = {field.name: getattr(program, field.name) for field in fields(program)}
    made = [_bare(x, 1) if n in chosen else x for n, x in enumerate(program.operands)]
    drawn = BareProgram(**{**given, "operands": tuple(made)})
    one = int(drawn.ring.one(drawn.dtype.name))
    made = [_bare(x, one) if n in chosen else x for n, x in enumerate(program.operands)]
    return BareProgram(**{**given, "operands": tuple(made)})


def _bare(x: SparseOperand, one: int) -> BareOperand:
    return BareOperand(x.coords, x.values, x.shape, x.format, x.dtype, one)
