"""Auto mesh axes: XLA decides how arrays are divided, and asks for the work of one device.

A call in the program stands for the whole operation, with its sharding rule (see `_compat.partitioning`). XLA replaces
it by what `_Decision` gives: the program of a device's shards, in which the operation is lowered as on one device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import jax

from jsparse import _compat
from jsparse._compat import Primitive, ir
from jsparse.primitives.division.axes import rule_of
from jsparse.primitives.division.description import NoDescriptionError, describe
from jsparse.primitives.division.rule import Division, Label, Labels, ShardingRule
from jsparse.primitives.spec import Operands
from jsparse.program_settings import Settings, program_settings


def lower_on_devices(primitive: Primitive, lower: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a lowering rule for CPU: in a program for several devices, XLA divides the operation among them."""

    def lower_by_rule(ctx: Any, *operands: ir.Value, **params: object) -> Sequence[ir.Value]:
        devices = _compat.devices_of(ctx)
        mesh = _compat.mesh_of_types(ctx.avals_in)
        # On explicit axes, the types of operands say how they are divided.
        is_explicit = not mesh.empty and _compat.explicit_axes(mesh) == {*mesh.axis_names}
        if devices == 1 or _compat.is_for_export(ctx) or is_explicit:
            return lower(ctx, *operands, **params)
        rule = rule_of(primitive, ctx.avals_in, ctx.avals_out, params)
        if rule is None or not rule.labels:
            return lower(ctx, *operands, **params)
        try:
            text = "\n".join(describe((primitive.name, devices, ctx.avals_in, params, _settings())))
        except NoDescriptionError:
            return lower(ctx, *operands, **params)
        digest = hashlib.sha256(text.encode()).hexdigest()
        from jsparse._compat import partitioning  # noqa: PLC0415  names of JAX that programs for one device do not need

        shapes = [x.shape for x in (*ctx.avals_in, *ctx.avals_out)]
        return partitioning.lower_partitioned(
            ctx, operands, devices, digest, *_shardy_rule(rule, shapes), _Decision(rule, shapes)
        )

    return lower_by_rule


def _settings() -> tuple[Settings, bool]:
    return program_settings.value, bool(jax.config.read("jax_enable_x64"))


class _Decision:
    """Decides on the division of an operation whose operands and results have these shapes.

    XLA asks while it compiles, when the settings of the program need not be in effect any more.
    """

    def __init__(self, rule: ShardingRule, shapes: Sequence[tuple[int, ...]]) -> None:
        self.rule, self.shapes, self._settings = rule, shapes, _settings()

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Set the settings of the program, in which parts are traced and lowered."""
        settings, x64 = self._settings
        with program_settings(settings), jax.enable_x64(x64):
            yield

    def __call__(
        self, asked: Operands, sizes: Mapping[str, int]
    ) -> tuple[Sequence[jax.sharding.PartitionSpec], Callable[..., Any]]:
        rule = self.rule
        division = Division(self._axes(asked, sizes), sizes)
        specs = [division.spec(labels) for labels in (*rule.results, *rule.operands)]
        return specs, lambda *shards: rule.local(shards, division)

    def _axes(self, asked: Operands, sizes: Mapping[str, int]) -> dict[Label, tuple[str, ...]]:
        """Divide each label as the first array asks that has it, if its devices divide all of its axes evenly."""
        rule, axes = self.rule, dict[Label, tuple[str, ...]]()
        every = [*rule.results, *rule.operands]
        for labels, entries in zip(every, asked, strict=True):
            for label, names in zip(labels, entries or (), strict=False):
                if label is None or not names or label in axes:
                    continue
                clashing = {name for other, own in axes.items() if rule.clashes(label, other) for name in own}
                count = prod(sizes[name] for name in names)
                if clashing.isdisjoint(names) and rule.is_even(label, count, self.shapes):
                    axes[label] = names
        return axes


def _shardy_rule(rule: ShardingRule, shapes: Sequence[tuple[int, ...]]) -> tuple[str, list[str]]:
    """The rule in Shardy's notation, and the names of axes that are whole.

    A label whose axes differ in size, such as a dimension and its blocks, has different names: Shardy does not carry
    a division from one to the other.
    """
    names, whole = dict[Any, str](), list[str]()

    def name(label: Label | None, size: int) -> str:
        if label is None:
            whole.append(f"w{len(whole)}")
            return whole[-1]
        return names.setdefault((label, size), f"x{len(names)}")

    def side(every: Sequence[Labels], shapes: Sequence[tuple[int, ...]]) -> str:
        pairs = (zip(labels, shape, strict=True) for labels, shape in zip(every, shapes, strict=True))
        return ", ".join(" ".join(name(label, size) for label, size in own) for own in pairs)

    count = len(rule.operands)  # Shardy numbers factors from the operands on
    operands = side(rule.operands, shapes[:count])
    return f"{operands} -> {side(rule.results, shapes[count:])}", whole
