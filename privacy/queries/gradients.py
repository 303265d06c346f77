"""Gradients of agents: each agent sends clipped gradients, up to a cap, and a bit on each score.

There is noise on every message, or a trusted server adds noise to the sum of a window of messages. In the shuffle model
messages have noise, and the server sees only those of a full window, in random order. Compiled loops call `submit` and
`receive`, one message at a time; `send_all` and `estimate_all` handle many at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.privacy.base import Float64Array, Int64Array, LedgerError, TrustModel
from dprl.privacy.channel import RECEIVED, RELEASED, SENT, advance_received, advance_sent, new_cursor
from dprl.privacy.derivation import Step, code_of
from dprl.privacy.ledger import ReleaseEvent
from dprl.privacy.mechanisms.base import Noise, Sensitivity
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace, VectorMechanism
from dprl.privacy.mechanisms.randomized_response import RandomizedResponse, fill_responses
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.mechanisms.shuffled import ShuffledReports
from dprl.privacy.mechanisms.vectors import RawVector, VectorNoise, fill_estimate, fill_message, fill_shrunk
from dprl.privacy.queries.gradient_windows import MOST_SHUFFLED, UNIT_BITS, Window, add_to_window, release_sum
from dprl.privacy.query import Query
from dprl.privacy.randomness.streams import Streams, noise_identity
from dprl.privacy.threat_models import ThreatModel, check_shuffled, of_gradients


@shows_numbers
class _ScoreNoise(NamedTuple):
    """The randomizer of the bit 1[score >= target] of a submission.

    noise: key and table of the coins, the table empty if no bit is sent; target: of the score; bit float64[1]:
    workspace.
    """

    noise: Noise
    target: float
    bit: Float64Array


class GradientChannel(NamedTuple):
    """The channel of gradients.

    cursor int64[5]; noise, score: the randomizers; window: the server's side; message float64[m]: the current message.
    """

    cursor: Int64Array
    noise: VectorNoise
    score: _ScoreNoise
    window: Window | None
    message: Float64Array

    def __repr__(self) -> str:
        return f"GradientChannel({self.noise.dimension} numbers, {self.cursor[SENT]} submissions sent)"


@no_alloc_kernel
def write_message(
    message: Float64Array, gradient: Float64Array, reached: float, noise: VectorNoise, score: _ScoreNoise, number: int
) -> None:
    """Write the message float64[m] of submission `number`: the randomized gradient and, if it is sent, the bit.

    *Formal guarantee.* That of the mechanism and, for the bit, that of its randomized response; their coins are drawn
    from different keys.
    """
    m = noise.message_length
    if score.noise.table.shape[0] == 0:
        fill_message(message, gradient, noise, number)
        return
    fill_message(message[:m], gradient, noise, number)
    # NaN counts as below the target.
    score.bit[0] = 1.0 if reached >= score.target else 0.0
    fill_responses(message[m:], score.bit, score.noise.key, np.uint64(number), score.noise.table)


@no_alloc_kernel
def submit(channel: GradientChannel, gradient: Float64Array, score: float, submission: int) -> None:
    """Client side: send the message of submission `submission` (from 1 on) for `gradient` float64[d].

    Raises LedgerError unless the submission is charged and is the next one to send.

    *Formal guarantee.* See `write_message`; only the message leaves the agent's side here. With a window of a trusted
    server it is the clipped gradient, for that server only: see `receive`.

    Paper: [OT20] Algorithms 2 and 3.
    """
    advance_sent(channel.cursor, submission)
    _write(channel.window, channel, gradient, score, submission)


@no_alloc_kernel
def _write(
    window: Window | None, channel: GradientChannel, gradient: Float64Array, score: float, submission: int
) -> None:
    """Write the message. `window` is an argument so that without one no code for windows is compiled."""
    if window is not None and window.unit == 0.0:
        fill_shrunk(channel.message, gradient, channel.noise)
    else:
        write_message(channel.message, gradient, score, channel.noise, channel.score, submission)


@no_alloc_kernel
def receive(channel: GradientChannel, out: Float64Array) -> float:
    """Server side: write the estimate of the gradient into `out` float64[d]; return the randomized bit, or NaN.

    With a window, `out` is the noisy sum of the window's gradients for its last message, and 0 for all others, so the
    sum of all `out` is that of all full windows.

    Raises LedgerError unless a message was sent and not yet received.

    *Formal guarantee.* Post-processing of messages with noise. With a window of a trusted server the noise is that of
    the law, drawn once for each window: one submission is in one window and changes its sum by at most the diameter of
    the clip, which the law hides. A window of shuffled messages gives the sum of its estimates, with the same bits in
    every order: see `Window`.
    """
    advance_received(channel.cursor)
    return _read(channel.window, channel, out)


@no_alloc_kernel
def _read(window: Window | None, channel: GradientChannel, out: Float64Array) -> float:
    """`receive`; `window` is an argument as in `_write`."""
    if window is not None:
        add_to_window(window, channel.noise, channel.message, channel.cursor, out)
        return math.nan
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
    score: _ScoreNoise,
    first: int,
) -> None:
    """Client side: write the messages float64[k, m] of submissions first, first+1, ...

    *Formal guarantee.* See `write_message`.
    """
    for i in range(values.shape[0]):
        write_message(values[i], gradients[i], scores[i], noise, score, first + i)


@no_alloc_kernel
def shrink_all(values: Float64Array, gradients: Float64Array, noise: VectorNoise) -> None:
    """Client side of a trusted server: write the clipped gradients float64[k, d], without noise."""
    for i in range(values.shape[0]):
        fill_shrunk(values[i], gradients[i], noise)


@no_alloc_kernel
def estimate_all(out: Float64Array, values: Float64Array, noise: VectorNoise) -> None:
    """Server side: write the estimates float64[k, d] of messages float64[k, m]; post-processing."""
    for i in range(out.shape[0]):
        fill_estimate(out[i], values[i, : noise.message_length], noise)


class GradientEstimates(NamedTuple):
    """Content of messages: gradients float64[k, d], and bits float64[k] in {0, 1}, None if none are sent."""

    gradients: Float64Array
    bits: Float64Array | None


@dataclass(frozen=True)
class GradientQuery(Query):
    """The gradient of an agent's episode and, with a response, a bit on its score.

    *Formal guarantee.* That of the law and, for the bit, that of its randomized response; their coins are drawn from
    different keys. For shuffled messages that of `ShuffledLoss`, if the law is pure: all agents have the same law, and
    their starting parameters are functions of earlier full windows. A projection drawn for one message is a part of the
    message, and shuffled with it.

    Args:
        law: randomizes the gradient; RawVector sends it without noise.
        response: randomizes the bit 1[score >= target_score]; None sends no bit.
        release_scores: 'simulator': raw scores are read; 'private': the bits are sent; 'none': neither.
        left_open: other channels that the algorithm leaves open, in words for the certificate.
        window: number of gradients that a trusted server sums before it adds the law's noise; 0 if agents add it.
        shuffled: whether agents add noise, and a shuffler passes on only the messages of a full window, in random
            order.

    Raises:
        LedgerError: for a bit with a gradient without noise, because nothing would be private; for a trusted server's
            window with a law that is no additive noise; for a window with bits; for shuffled messages without noise, or
            fewer than two of them; for `release_scores` that do not say whether bits are sent.
    """

    law: VectorMechanism | RawVector
    response: RandomizedResponse | None = None
    target_score: float = math.inf
    release_scores: str = "simulator"
    left_open: tuple[str, ...] = ()
    window: int = 0
    shuffled: bool = False
    name: ClassVar[str] = "gradients"
    adds_up_messages: ClassVar[bool] = True
    """True: noise of a window is numbered by its submissions."""
    sampled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.law, RawVector) and self.response is not None:
            raise LedgerError("a bit on the score needs a gradient with noise; without one nothing is private")
        if self.release_scores not in (("simulator", "none") if self.response is None else ("private",)):
            raise LedgerError(
                "release_scores must be private if bits are sent, otherwise simulator or none, got "
                f"{self.release_scores!r} with the response {self.response}; correct it"
            )
        if self.shuffled:
            if isinstance(self.law, RawVector) or self.response is not None or not 2 <= self.window <= MOST_SHUFFLED:
                raise LedgerError(
                    f"a shuffler takes 2 to {MOST_SHUFFLED} messages with noise and without bits, got {self.window} "
                    f"of {self.law.name}; change the window, or leave out the bits"
                )
        elif self.window < 0:
            raise LedgerError(
                f"window must be at least 0, got {self.window}; 0 is for messages with noise of their own"
            )
        elif self.window and (self.response is not None or not isinstance(self.law, ClippedGaussian | ClippedLaplace)):
            raise LedgerError("a server releases sums of clipped gradients with additive noise, and no bits; leave out")

    @property
    def dimension(self) -> int:
        """d, of the gradients."""
        return self.law.dimension

    @property
    def message_length(self) -> int:
        """Length of a message, for any data."""
        return self.law.message_length + (self.response is not None)

    @property
    def noisy_sides(self) -> tuple[bool, bool]:
        """Whether there is noise on (the client's side, the server's side)."""
        noisy, server = not isinstance(self.law, RawVector), bool(self.window) and not self.shuffled
        return noisy and not server, noisy and server

    @property
    def identity(self) -> str:
        """Text that identifies record and noise."""
        window = f"|window {self.window}" if self.window else ""
        window += "|shuffled" if self.shuffled else ""
        return f"gradients|{noise_identity(self.law, self.response, self.target_score)}{window}"

    def check_run(self, n_users: int, submissions: int) -> None:
        """Raise unless every user is at most once in a window, because its noise hides one gradient per user."""
        super().check_run(n_users, submissions)
        if submissions > 1 and self.window > n_users:
            raise LedgerError(f"window must be at most n_users, {n_users}, got {self.window}; lower it, or submissions")

    @property
    def noise_norm(self) -> float:
        """Root mean squared norm of the noise of a release, an upper bound."""
        return self.law.noise_norm

    def events(self, entropy: str) -> tuple[ReleaseEvent, ...]:
        """Return the releases of one submission."""
        law = self.law
        if isinstance(law, RawVector):
            return (ReleaseEvent.without_noise("gradient", law.dimension, entropy),)
        if self.shuffled:
            shuffled = ShuffledReports(law, self.window)
            return (ReleaseEvent.of_message("gradient", shuffled, False, law.message_length, entropy),)
        gradient = ReleaseEvent.of_message("gradient", law, True, law.message_length, entropy)
        if self.response is None:
            return (gradient,)
        bit = Sensitivity.of_cells(1)
        return gradient, ReleaseEvent("score bit", self.response, bit, bit, True, 1, 1, entropy)

    def derivation(self) -> tuple[Step, ...]:
        """Return the largest distance of two clipped gradients, if the law clips."""
        if not isinstance(self.law, ClippedGaussian | ClippedLaplace):
            return ()
        name, clip = f"distance of two clipped gradients, {self.law.norm.upper()}", self.law.clip
        lemma, code = "Gradients are shrunk into a ball of radius C / 2", code_of(self.law, "sensitivity")
        return (Step(name, "2 * radius", {"radius": clip / 2.0}, clip, lemma, "docs/paper_map.md#ot20", code),)

    def threat_model(self, model: TrustModel, submissions: int) -> ThreatModel:
        """Return the threat model. Raises LedgerError unless messages are shuffled in that trust model and no other."""
        check_shuffled(self.shuffled, model)
        return of_gradients(model, submissions, self.release_scores, self.left_open)

    def open(self, streams: Streams) -> GradientChannel:
        """Return the channel before the first submission."""
        noise, score = self.randomizers(streams)
        units = np.zeros(self.dimension if self.shuffled else 0, dtype=np.int64)
        window, held = None, np.zeros(1, dtype=np.int64)
        if self.window:
            nothing = np.zeros(0)
            window = Window(self.window, np.zeros(self.dimension), self._unit, units, held, None, nothing, nothing)
        return GradientChannel(new_cursor(), noise, score, window, np.zeros(self.message_length))

    def changing(self, channel: GradientChannel) -> dict[str, np.ndarray]:
        """Return the sum of the current window, which stays with the server or the shuffler."""
        window = channel.window
        if window is None:
            return {}
        return {"units": window.units, "held": window.held} if self.shuffled else {"window": window.total}

    @property
    def _unit(self) -> float:
        """Unit of the sums of shuffled messages: a power of two, finer than grids of noise; 0 for others."""
        if not self.shuffled:
            return 0.0
        size = self.law.noise_norm + getattr(self.law, "clip", 1.0)
        return float(2.0 ** (math.frexp(size)[1] - UNIT_BITS))

    def randomizers(self, streams: Streams) -> tuple[VectorNoise, _ScoreNoise]:
        """Return the randomizers for kernels; with entropy `os` they have new keys every time."""
        table = SILENT.table if self.response is None else self.response.table()
        coins = SILENT._replace(key=streams.key("user_coins", self.identity), table=table)
        score = _ScoreNoise(coins, self.target_score, np.zeros(1))
        return self.law.vector_noise(streams.key("user_noise", self.identity)), score

    def check_record(self, record: tuple[Float64Array, float]) -> None:
        """Raise ValueError unless a record is a gradient float64[d] and a score; the message reveals no content."""
        shape = np.shape(record[0])
        if shape != (self.dimension,):
            raise ValueError(
                f"a gradient must have shape ({self.dimension},), got {shape}; send one for each submission"
            )

    def send(self, channel: GradientChannel, record: tuple[Float64Array, float], user: int) -> None:
        """Client side: send the gradient float64[d] and the score of submission `user`."""
        submit(channel, np.ascontiguousarray(record[0], dtype=np.float64), float(record[1]), user)

    def receive_values(self, channel: GradientChannel, values: Float64Array) -> GradientEstimates:
        """Server side: return the content of a message from another process; a trusted server clips it again first."""
        out = np.zeros((1, self.dimension))
        if self.noisy_sides[1]:
            fill_shrunk(channel.message, values, channel.noise)
        else:
            channel.message[:] = values
        bit = receive(channel, out[0])
        if not self.window:
            channel.cursor[RELEASED] = channel.cursor[RECEIVED]
        return GradientEstimates(out, None if self.response is None else np.array([bit]))

    def read(self, channel: GradientChannel, messages: Float64Array, last: int) -> GradientEstimates:
        """Return the estimates of messages float64[k, m]; post-processing.

        A trusted server takes a whole window: the last estimate is the noisy sum, the others are 0.

        Raises LedgerError for another length, or for fewer messages than a window.
        """
        if messages.shape[1:] != (self.message_length,):
            raise LedgerError(f"a message has {self.message_length} numbers, got {messages.shape[1:]}; send it again")
        gradients = np.zeros((len(messages), self.dimension))
        if self.noisy_sides[1] and channel.window is not None:
            if len(messages) != self.window:
                raise LedgerError(f"a sum is of {self.window} messages, got {len(messages)}; wait for all of them")
            self._release(channel, np.ascontiguousarray(messages), last, gradients[-1])
            return GradientEstimates(gradients, None)
        estimate_all(gradients, np.ascontiguousarray(messages), channel.noise)
        return GradientEstimates(gradients, None if self.response is None else messages[:, -1].copy())

    def _release(self, channel: GradientChannel, messages: Float64Array, last: int, out: Float64Array) -> None:
        """Server side: write the noisy sum of the messages of a window, with `last` the largest number among them."""
        if channel.window is not None:
            release_sum(channel.window.total, channel.message, channel.noise, messages, last, out)
