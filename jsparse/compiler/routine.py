"""Calls of the extension's own routines: index work on dynamic patterns, which the compiler does not generate.

A routine is a kernel like any other (`csrc/routines.cc`); what a schedule is to a generated kernel, a row of integers
is to it (`csrc/params.h`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from jsparse import _native
from jsparse.errors import JsparseError
from jsparse.formats import DynamicType, LevelKind

__all__ = [
    "Routine",
    "RoutineName",
    "has_batch",
    "is_routine",
    "parameters",
    "places_dtype",
    "read_routine",
    "swap_parameters",
    "with_batch",
]

RoutineName: TypeAlias = Literal["assemble", "check", "expand", "nonzero", "swap", "validate"]

NAMES = get_args(RoutineName)
VERSION = 1
WIDE_INDEX, WIDE_PLACES, WIDE_COORDINATES, BATCHED = 1, 2, 4, 8
FLAGS_AT, BATCH_AT = 1, 2
_KINDS = {LevelKind.DENSE: 0, LevelKind.COMPRESSED: 1, LevelKind.SINGLETON: 2}


@dataclass(frozen=True, slots=True)
class Routine:
    """A routine with its parameters, and how many buffers it takes."""

    name: RoutineName
    params: tuple[int, ...]
    operands: int
    results: int

    @property
    def recipe(self) -> str:
        """The routine as text."""
        return json.dumps(["routine", self.name, self.params, self.operands, self.results], separators=(",", ":"))

    @property
    def address(self) -> int:
        """Where its code lies in this process."""
        return _native.routine(self.name)

    @property
    def slots(self) -> list[int]:
        """The parameters are bound in front; operands and results follow."""
        return [-1, *range(self.operands + self.results)]

    @property
    def bound(self) -> str:
        """No index array is bound."""
        return ""

    @property
    def is_batched(self) -> bool:
        """Whether buffers have a leading axis."""
        return has_batch(self.params)

    def batched(self, size: int) -> Routine:
        """`size` of these at once, on buffers with one leading axis."""
        return replace(self, params=with_batch(self.params, size))

    def table(self) -> np.ndarray:
        """The parameters as the routine reads them."""
        return np.array(self.params, np.int64)


def parameters(
    type_: DynamicType, *, inputs: int = 0, element: np.dtype | None = None, coordinates: np.dtype | None = None
) -> tuple[int, ...]:
    """The parameters for patterns of that type, `inputs` coordinates or elements of a dtype."""
    flags = WIDE_INDEX * (type_.index_dtype.itemsize == 8) | WIDE_PLACES * (places_dtype(type_, inputs).itemsize == 8)
    flags |= WIDE_COORDINATES * (coordinates is not None and coordinates.itemsize == 8)
    width, kind = (0, 0) if element is None else _element(element)
    head = (VERSION, int(flags), 1, inputs, type_.nse, width, kind, type_.format.ndim)
    levels = (
        value
        for level in type_.format.levels
        for value in (_KINDS[level.kind], level.dim, int(level.unique), type_.shape[level.dim])
    )
    return (*head, *levels)


def swap_parameters(shape: tuple[int, ...], element: np.dtype) -> tuple[int, ...]:
    """The parameters for an array of that shape and dtype, whose last two dimensions change places."""
    levels = (value for dim, size in enumerate(shape) for value in (_KINDS[LevelKind.DENSE], dim, 1, size))
    return (VERSION, 0, 1, 0, 0, *_element(element), len(shape), *levels)


def _element(dtype: np.dtype) -> tuple[int, int]:
    """Bytes of a component, and the kind of a dtype."""
    kind = 2 if dtype.kind == "c" else 0 if dtype.kind in "iub" else 1
    return dtype.itemsize // (2 if kind == 2 else 1), kind


def has_batch(params: tuple[int, ...]) -> bool:
    """Whether these are the parameters of a batch."""
    return bool(params[FLAGS_AT] & BATCHED)


def with_batch(params: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The parameters of `size` calls at once, whose buffers have one leading axis. Those of a batch become one that is
    `size` times as large."""
    changed = list(params)
    changed[FLAGS_AT] |= BATCHED
    changed[BATCH_AT] *= size
    return tuple(changed)


def places_dtype(type_: DynamicType, inputs: int) -> np.dtype:
    """The dtype of places among slots and inputs."""
    return np.dtype(np.int64 if max(type_.nse, inputs) >= 2**31 - 1 else np.int32)


def is_routine(recipe: str) -> bool:
    """Whether a recipe is a routine's."""
    return recipe.startswith('["routine"')


def read_routine(recipe: str) -> Routine:
    """The routine of a recipe. Raises JsparseError for any other text."""
    try:
        _, name, params, operands, results = json.loads(recipe)
        if name not in NAMES:
            raise JsparseError(f"Expected one of the routines {', '.join(NAMES)}, but got {name!r}.")
        return Routine(name, tuple(map(int, params)), int(operands), int(results))
    except (TypeError, ValueError) as error:
        if isinstance(error, JsparseError):
            raise
        raise JsparseError(f"Expected the recipe of a routine, but got {recipe[:80]!r}: {error}") from error
