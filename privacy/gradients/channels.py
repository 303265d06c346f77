"""From an agent's gradient to the server's estimate of it: the kernels on either side of a message.

`submit` and `receive` are what compiled loops call, one message at a time; `send_all` and `estimate_all` are the two
sides of many at once.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple, NoReturn

import numpy as np

from dprl.compiled import no_alloc_kernel
from dprl.privacy.base import Float64Array, Int64Array, LedgerError
from dprl.privacy.mechanisms.randomized_response import fill_responses
from dprl.privacy.mechanisms.vectors import VectorNoise, fill_estimate, fill_message

CHARGED, SENT, MESSAGES, RECEIVED = range(4)


class ScoreNoise(NamedTuple):
    """How the bit 1[score >= target] of a submission is randomised.

    key uint64[5]; table uint64[4]: of the coins, empty if no bit is sent; target: of the score; bit float64[1]: room.
    """

    key: np.ndarray
    table: np.ndarray
    target: float
    bit: Float64Array

    def __repr__(self) -> str:
        return f"ScoreNoise(target={self.target})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("noise cannot be copied or pickled: its key must not be written down or used twice")


class GradientChannel(NamedTuple):
    """A gradient privatizer's state as the kernels see it; learners only hand it on.

    noise, score: what randomises; state int64[4]: how many submissions are charged, the last one sent, how many
    messages were sent, the last one received; message float64[m]: the message under way.
    """

    noise: VectorNoise
    score: ScoreNoise
    state: Int64Array
    message: Float64Array

    def __repr__(self) -> str:
        return f"GradientChannel({self.noise.dimension} numbers, {self.state[SENT]} submissions sent)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("noise cannot be copied or pickled: its key must not be written down or used twice")


def fixed_part(channel: GradientChannel) -> str:
    """Return a digest of all that must not change in a run: what the noise that is drawn depends on."""
    noise, score = channel.noise, channel.score
    digest = hashlib.blake2b(described(noise) + repr(score.target).encode())
    for array in (noise.noise.key, score.key, score.table):
        digest.update(np.ascontiguousarray(array).tobytes() + b"|")
    return digest.hexdigest()


def described(noise: VectorNoise) -> bytes:
    """Return all of it but the key of the noise and the room; an open key is made of that key."""
    arrays = ("noise", "numbers", "words", "open_key")
    numbers = {key: float(value) for key, value in noise._asdict().items() if key not in arrays}
    numbers |= {f"noise.{key}": float(getattr(noise.noise, key)) for key in ("law", "scale", "bound")}
    return repr(numbers).encode() + noise.noise.table.tobytes() + noise.open_key.tobytes()


@no_alloc_kernel
def write_message(
    message: Float64Array, gradient: Float64Array, reached: float, noise: VectorNoise, score: ScoreNoise, number: int
) -> None:
    """Write the message float64[m] of submission `number`: the randomised gradient and, if it is sent, the bit.

    *Formal guarantee.* That of the mechanism and, for the bit, that of its randomised response; their coins are drawn
    from different keys.
    """
    m = noise.message_length
    if score.table.shape[0] == 0:
        fill_message(message, gradient, noise, number)
        return
    fill_message(message[:m], gradient, noise, number)
    # What is no number has not reached the target.
    score.bit[0] = 1.0 if reached >= score.target else 0.0
    fill_responses(message[m:], score.bit, score.key, np.uint64(number), score.table)


@no_alloc_kernel
def submit(channel: GradientChannel, gradient: Float64Array, score: float, submission: int) -> None:
    """User side: send the message of submission `submission` (from 1 on) for `gradient` float64[d].

    Raises LedgerError unless the submission is charged and is the next one that was not sent yet.

    *Formal guarantee.* See `write_message`; the message is all that leaves the agent's side here.

    Paper: [OT20] Algorithms 2 and 3.
    """
    state = channel.state
    if submission != state[SENT] + 1 or submission > state[CHARGED]:
        raise LedgerError("submissions are sent once, in order, and after the ledger has charged them")
    state[SENT] = submission
    state[MESSAGES] += 1  # is more than was charged if somebody was sent back
    write_message(channel.message, gradient, score, channel.noise, channel.score, submission)


@no_alloc_kernel
def receive(channel: GradientChannel, out: Float64Array) -> float:
    """Server side: write the estimate of the gradient into `out` float64[d]; return the randomised bit, or NaN.

    Raises LedgerError unless a message is under way. Post-processing.
    """
    state = channel.state
    if state[RECEIVED] >= state[SENT]:
        raise LedgerError("a message is received once, after it was sent")
    state[RECEIVED] = state[SENT]
    m = channel.noise.message_length
    if channel.message.shape[0] == m:
        fill_estimate(out, channel.message, channel.noise)
        return math.nan
    fill_estimate(out, channel.message[:m], channel.noise)
    return float(channel.message[m])


@no_alloc_kernel
def send_all(
    values: Float64Array,
    gradients: Float64Array,
    scores: Float64Array,
    noise: VectorNoise,
    score: ScoreNoise,
    first: int,
) -> None:
    """User side: write the messages float64[k, m] of submissions first, first+1, ...

    *Formal guarantee.* See `write_message`.
    """
    for i in range(values.shape[0]):
        write_message(values[i], gradients[i], scores[i], noise, score, first + i)


@no_alloc_kernel
def estimate_all(out: Float64Array, values: Float64Array, noise: VectorNoise) -> None:
    """Server side: write the estimates float64[k, d] of messages float64[k, m]; post-processing."""
    for i in range(out.shape[0]):
        fill_estimate(out[i], values[i, : noise.message_length], noise)
