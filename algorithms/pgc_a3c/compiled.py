"""Eight additions as one vector instruction; a compiler would emit eight for eight lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dprl.algorithms.base import Float64Array
from dprl.compiled import JIT_DISABLED

Four = tuple[float, float, float, float]


def _add_products(sums: Float64Array, at: int, z: float, y: float, s: Four) -> None:
    """Add z s, then y s, to the eight of the contiguous sums float64[n] that begin at `at`; no bounds check."""
    for m, part in enumerate(s):
        sums[at + m] += z * part
        sums[at + len(s) + m] += y * part


@intrinsic
def _add_products_at_once(_: Any, sums: Any, at: Any, z: Any, y: Any, s: Any) -> tuple[Any, Any]:  # noqa: ANN401
    eight = ir.VectorType(ir.DoubleType(), 8)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), eight.as_pointer())
        parts = [builder.extract_value(arguments[4], m) for m in range(4)]
        states, weights = ir.Constant(eight, ir.Undefined), ir.Constant(eight, ir.Undefined)
        for k in range(8):
            number = ir.Constant(ir.IntType(32), k)
            states = builder.insert_element(states, parts[k % 4], number)
            weights = builder.insert_element(weights, arguments[2 + k // 4], number)
        added = builder.fadd(builder.load(place, align=8), builder.fmul(weights, states))
        builder.store(added, place, align=8)
        return context.get_dummy_value()

    return types.void(sums, at, z, y, s), generate


add_products: Callable[[Float64Array, int, float, float, Four], None] = (
    _add_products if JIT_DISABLED else cast(Any, _add_products_at_once)
)
