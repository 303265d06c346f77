"""Opens a privatizer's channel: the objects that decide the noise become what the kernels read and the ledger holds."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from dprl.privacy.base import CountFamily, LedgerError
from dprl.privacy.counters.base import EXACT, ROWS, Counter, Tree
from dprl.privacy.counters.release import row_of_prefix
from dprl.privacy.counts.exchange import ABSORBED, RELEASED, SAMPLED_UNARY, SUMS, UNARY, Channel, Receiver, Sender
from dprl.privacy.counts.layouts import Layout
from dprl.privacy.counts.printed import PrintedError
from dprl.privacy.ledgers.ledger import Release
from dprl.privacy.mechanisms.base import INTEGER, NO_NOISE, Mechanism, Noise, Sensitivity
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.mechanisms.tabulated import TabulatedMechanism, is_its_table
from dprl.privacy.mechanisms.unary_report import UnaryReport
from dprl.privacy.randomness.streams import Streams, noise_identity


class NoiseParts(NamedTuple):
    """What a trust model decides.

    report: the user's randomiser, None for messages as they are. counter: the server's. printed: a paper's error bound,
    which is used in place of the exact one, or None.
    """

    report: Mechanism | UnaryReport | None
    counter: Counter
    printed: PrintedError | None


def releases(layout: Layout, noise: NoiseParts, entropy: str) -> list[Release]:
    """Return the releases of a run, one for each released family, described by the objects that make the noise.

    Raises LedgerError for noise that would not hide what is sent: the fractions of values under whole-number noise.
    """
    families = layout.released
    mechanism = noise.report or noise.counter.node
    if mechanism is not None and mechanism.arithmetic == INTEGER and not layout.integral:
        raise LedgerError(
            f"{mechanism.name} hides whole numbers only, and values in [0, 1] are sent; send coins instead"
        )
    raw = mechanism is None
    found = []
    for family in families.families:
        if isinstance(noise.report, UnaryReport):
            row = noise.report.sensitivity
            start: Sensitivity | None = row
        else:
            row = Sensitivity.of_cells(families.changed_cells())
            public = families.changed_public_start(family)
            start = Sensitivity.of_cells(public) if public > 0 else None
        found.append(
            Release(
                channel=family.name,
                mechanism=mechanism,
                sensitivity=None if raw else noise.counter.sensitivity(row),
                public_start=None if raw or start is None else noise.counter.sensitivity(start),
                attainable=_attainable(family, noise.counter),
                nodes_per_user=nodes_per_user(noise.counter),
                cells=families.n_steps * family.width,
                entropy=entropy,
            )
        )
    return found


def nodes_per_user(counter: Counter) -> int:
    """Return how many noisy sums of one cell a user enters at most; 1 where there are no such sums (factorisations)."""
    return counter.levels if isinstance(counter, Tree) else 1


def _attainable(family: CountFamily, counter: Counter) -> bool:
    """Whether some pair of trajectories tells as much as is charged: a step has two cells, and the counter agrees."""
    return family.width > 1 and counter.attained


def open_channel(layout: Layout, noise: NoiseParts, streams: Streams) -> Channel:
    """Return the state before the first user."""
    released = layout.released
    n_cells, n_steps = released.n_cells, released.n_steps
    # What else is drawn from the same streams, with another scale for instance, must not be drawn from the same bits.
    purpose = f"counts|{noise_identity(layout, noise.report, noise.counter)}"
    slots = layout.slots()
    totals = np.zeros(n_cells)
    exact = noise.counter.node is None
    noisy = totals if exact else np.zeros(n_cells)
    shift, factor = 0.0, 1.0
    if isinstance(noise.report, UnaryReport):
        shift, factor = noise.report.encoding.cold_probability, noise.report.factor
    return Channel(
        slots=slots,
        users=np.zeros(5, dtype=np.int64),
        n_steps=n_steps,
        summed=int(layout.summed),
        sender=Sender(
            kind=_message_kind(noise.report),
            noise=_user_noise(noise.report, streams.key("user_noise", purpose)),
            table=noise.report.encoding.table() if isinstance(noise.report, UnaryReport) else SILENT.table,
            coins_key=streams.key("user_coins", purpose),
            coins=np.zeros(n_steps * len(layout.needed.families)),
            message=np.zeros(1 + released.block if _message_kind(noise.report) == SAMPLED_UNARY else n_cells),
        ),
        receiver=Receiver(
            shift=shift,
            factor=factor,
            totals=totals,
            settled=np.zeros(0 if exact else n_cells),
            counter=noise.counter.open(n_cells, streams.key("server_noise", purpose)),
            noisy=noisy,
        ),
        released=np.zeros(layout.needed.n_cells) if layout.summed else noisy,
    )


def fixed_part(channel: Channel) -> str:
    """Return a digest of all that must not change in a run: what the noise that is drawn depends on."""
    sender, receiver, counter = channel.sender, channel.receiver, channel.receiver.counter
    digest = hashlib.blake2b()
    numbers = (channel.n_steps, channel.summed, sender.kind, receiver.shift, receiver.factor)
    digest.update(repr((*numbers, counter.kind, counter.base, *channel.slots[3:6])).encode())
    arrays = [*channel.slots[:3], channel.slots.sums, sender.table, sender.coins_key, counter.coefficients]
    if counter.kind == ROWS:
        arrays.append(counter.rows)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    for law, scale, bound, key, table in (sender.noise, counter.node):
        digest.update(repr((law, scale, bound)).encode() + key.tobytes() + table.tobytes())
    return digest.hexdigest()


def belongs_together(channel: Channel) -> bool:
    """Whether what was released last is the sum of what was sent and the noise that is kept for it, bit for bit."""
    receiver, absorbed, last = channel.receiver, int(channel.users[ABSORBED]), int(channel.users[RELEASED])
    if receiver.counter.kind == EXACT:
        expected = receiver.totals
    elif last == 0:
        expected = np.zeros_like(receiver.totals)
    else:
        sums = receiver.totals if last == absorbed else receiver.settled
        expected = sums + receiver.counter.rows[row_of_prefix(receiver.counter, last)]
    started = absorbed > 0 or not receiver.totals.any()
    return started and last <= absorbed and np.array_equal(receiver.noisy, expected)


def is_drawn(noise: NoiseParts, channel: Channel) -> bool:
    """Whether what the kernels draw is what the objects say."""
    mechanisms = (noise.counter.node, None if isinstance(noise.report, UnaryReport) else noise.report)
    drawn = (channel.receiver.counter.node, channel.sender.noise)
    for mechanism, kernel_noise in zip(mechanisms, drawn, strict=True):
        said = (NO_NOISE, 0.0, 0.0) if mechanism is None else (mechanism.law, mechanism.scale, mechanism.bound)
        if said != (kernel_noise.law, kernel_noise.scale, kernel_noise.bound):
            return False
        if isinstance(mechanism, TabulatedMechanism) and not is_its_table(mechanism, kernel_noise):
            return False
    return True


def _message_kind(report: Mechanism | UnaryReport | None) -> int:
    if isinstance(report, UnaryReport):
        return SAMPLED_UNARY if report.sampled else UNARY
    return SUMS


def _user_noise(report: Mechanism | UnaryReport | None, key: np.ndarray) -> Noise:
    if report is None:
        return SILENT
    if isinstance(report, UnaryReport):
        return SILENT._replace(key=key)
    return report.noise(key)
