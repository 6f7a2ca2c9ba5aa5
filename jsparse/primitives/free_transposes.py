"""Transposes that cost nothing, because XLA chooses the layouts of the arrays between them.

A layer that computes x W, where the first axis of x is the batch, transposes both x and the product. The routine `swap`
is faster than XLA's transpose. But XLA can remove two transposes if there are only elementwise operations between them:
it stores the arrays between them in another layout. So before a swap is lowered to a call of the routine, the
operations that compute its operand are searched. If the operand is computed from other swaps by elementwise operations
only, all of these swaps become transposes that XLA can see.

While a swap is lowered, later operations are not known. So a swap becomes a call at first. If it becomes a transpose
later, the uses of the call's result are replaced, and XLA removes the unused call.
"""

from __future__ import annotations

from typing import Any

from jsparse._compat import ir, stablehlo

_STABLEHLO = """
    abs add and atan2 cbrt ceil clamp compare convert cosine divide exponential exponential_minus_one floor is_finite
    log log_plus_one logistic maximum minimum multiply negate not or power remainder round_nearest_afz
    round_nearest_even rsqrt select sign sine sqrt subtract tan tanh xor
"""
_CHLO = "acosh asinh atanh cosh erf erf_inv erfc lgamma sinh square"
ELEMENTWISE = frozenset([f"stablehlo.{x}" for x in _STABLEHLO.split()] + [f"chlo.{x}" for x in _CHLO.split()])
NEUTRAL = frozenset(["stablehlo.broadcast_in_dim", "stablehlo.constant", "stablehlo.iota"])
MOST = 256  # the maximum number of values that are traced back


def after_transposes(ctx: Any, operand: Any) -> bool:
    """Return whether a value is computed from swaps or transposes by elementwise operations only.

    If so, turn the swaps into transposes, which XLA removes together with the transpose that follows the value.

    Args:
        ctx: the context of a lowering rule.
        operand: a value of the program that is being lowered.
    """
    search = _TransposeSearch(ctx)
    if not search.follow(operand) or not search.sources:
        return False
    for swap in search.sources:
        if swap.name == "stablehlo.custom_call":
            with ir.InsertionPoint(swap), swap.location:
                swap.results[0].replace_all_uses_with(build_transpose(swap.operands[0]))
    return True


def build_transpose(operand: Any) -> Any:
    """Build XLA's transpose of the last two of three dimensions."""
    return stablehlo.transpose(operand, ir.DenseI64ArrayAttr.get([0, 2, 1]))


class _TransposeSearch:
    """A search for the swaps and transposes from which a value is computed by elementwise operations.

    Attributes:
        sources: the swaps and transposes that were found.
        seen: the values that were traced back, each with the function calls that contain it.
    """

    def __init__(self, ctx: Any) -> None:
        self.functions = ctx.module_context.symbol_table
        self.sources: list[Any] = []
        self.seen: set[Any] = set()

    def follow(self, value: Any, calls: tuple[Any, ...] = ()) -> bool:
        """Return whether a value is computed from swaps and transposes only, by elementwise operations.

        Broadcasts and constants may take part: XLA can store them in any layout.

        Args:
            calls: the function calls that contain the value, outermost first.
        """
        if (value, calls) in self.seen:
            return True
        self.seen.add((value, calls))
        if len(self.seen) > MOST:
            return False
        if isinstance(value.owner, ir.Block):  # an argument: of the function called last, or of the whole program
            number = ir.BlockArgument(value).arg_number
            return bool(calls) and self.follow(calls[-1].operands[number], calls[:-1])
        op = value.owner.operation
        if op.name == "stablehlo.transpose" or _is_swap(op):
            self.sources.append(op)
            return True
        if op.name == "func.call":
            function = self.functions[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
            results = function.regions[0].blocks[0].operations[-1].operands
            return self.follow(results[ir.OpResult(value).result_number], (*calls, op))
        if op.name in ELEMENTWISE or op.name == "stablehlo.reshape":
            return all(self.follow(operand, calls) for operand in op.operands)
        return op.name in NEUTRAL


def _is_swap(op: Any) -> bool:
    """Whether an operation calls the routine `swap`."""
    if op.name != "stablehlo.custom_call" or "mhlo.backend_config" not in op.attributes:
        return False
    config = ir.DictAttr(op.attributes["mhlo.backend_config"])
    return "recipe" in config and ir.StringAttr(config["recipe"]).value.startswith('["routine","swap",')
