"""A block of users at once: the sum of their messages drawn from its exact distribution, at a cost independent of K.

For seeded simulations only: between two releases the policy is fixed and users are independent, so counts of cells are
multinomial, and sums of m noise draws and m coins have known distributions. No message is made; the ledger charges
every user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dprl.compiled import kernel
from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.mechanisms.reports import UnaryEncoder
from dprl.privacy.queries.count_encoding import CountEncoding, Slots
from dprl.privacy.randomness.streams import block_generator


@dataclass(frozen=True)
class UserBlock:
    """Users who send one after the other, all under one policy.

    Args:
        first: the first of them, 1-based. users: m, their number.
        draw: draws the number of users in each cell of the first family at each step, int64[H, width]. Called with None
            if all m users are in every step, or with sizes int64[H] if step h has sizes[h] users, each in one step.
        values: of the family with values in [0, 1], float64[H, its width], the same for all users; None without one.
    """

    first: int
    users: int
    draw: Callable[[Int64Array | None], Int64Array] = field(repr=False)
    values: Float64Array | None = field(default=None, repr=False)


def draws_blocks(encoding: CountEncoding, law: object) -> bool:
    """Whether sums of messages can be drawn at once: all cells follow from the first family, and the sums are known."""
    first, *others = encoding.needed.families
    marginals = first.indicator and all(family.marginal_of == first.name for family in others)
    return marginals and (law is None or isinstance(law, UnaryEncoder) or bool(getattr(law, "draws_sums", False)))


def sum_of_messages(
    encoding: CountEncoding, law: object, keys: tuple[np.ndarray, np.ndarray], block: UserBlock
) -> Float64Array:
    """Return the sum of the unbiased estimates in the messages of a block, float64[cells].

    keys: of the noise and of the coins of users, both uint64[5]; the block's draws are those of its first user.
    """
    noise, coins = (block_generator(key, block.first) for key in keys)
    horizon, slots = encoding.released.n_steps, encoding.slots()
    sizes = np.full(horizon, block.users, dtype=np.int64)
    if isinstance(law, UnaryEncoder):
        # Each user sends one step, so steps have different users; every step has bits of its own.
        sizes = noise.multinomial(block.users, np.full(horizon, 1.0 / horizon))
        slots = slots._replace(stride=slots.block)
    drawn = block.draw(sizes if isinstance(law, UnaryEncoder) else None)
    sums = _encoded(encoding, slots, drawn, block.values, coins)
    if isinstance(law, UnaryEncoder):
        bits = law.encoding.sum_of_bits(sums.reshape(horizon, -1).astype(np.int64), sizes, noise)
        estimates = (bits - sizes[:, None] * law.encoding.cold_probability) * law.factor
        return np.asarray(estimates.reshape(-1, encoding.released.n_cells).sum(axis=0))
    return sums if law is None else sums + law.sum_of_draws(block.users, sums.shape[0], noise)  # type: ignore[attr-defined]


def _encoded(
    encoding: CountEncoding,
    slots: Slots,
    numbers: Int64Array,
    values: Float64Array | None,
    coins: np.random.Generator,
) -> Float64Array:
    """Return the sum of a block's records, encoded for the released families, float64[cells]."""
    families = encoding.needed.families
    step, cell = np.nonzero(numbers)
    users = numbers[step, cell]
    value = np.ones((users.shape[0], len(families)))
    for i, family in enumerate(families):
        if not family.indicator and values is not None:
            value[:, i] = np.clip(values[step, cell % family.width], 0.0, 1.0)
    tossed = slots.coins.astype(bool)
    heads = np.zeros(value.shape, dtype=np.int64)
    heads[:, tossed] = coins.binomial(users[:, None], value[:, tossed])
    sums = np.zeros(slots.block * (encoding.released.n_steps if slots.stride > 0 else 1))
    _add(slots, sums, (step, cell, users), value, heads)
    return sums


@kernel
def _add(
    slots: Slots,
    sums: Float64Array,
    entered: tuple[Int64Array, Int64Array, Int64Array],
    value: Float64Array,
    heads: Int64Array,
) -> None:
    """Add records to sums float64[layers * block], like `add_record` for one user.

    entered: steps, cells and numbers of users, int64[n] each; value float64[n, F]; heads int64[n, F]: number of ones
    among the users' coins with probability `value`.
    """
    steps, cells, users = entered
    for i in range(steps.shape[0]):
        start = steps[i] * slots.stride
        if slots.one_hot != 0:
            above = heads[i, slots.bit] if slots.bit >= 0 else 0
            sums[start + cells[i]] += users[i] - above
            if above > 0:
                sums[start + slots.widths[0] + cells[i]] += above
            continue
        for family in range(slots.widths.shape[0]):
            amount = users[i] * value[i, family]
            if slots.coins[family] != 0:
                amount = float(heads[i, family])
            sums[start + slots.starts[family] + cells[i] % slots.widths[family]] += amount
