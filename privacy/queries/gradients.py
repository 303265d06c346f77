"""Gradients of agents: each agent sends clipped gradients, up to a cap.

There is noise on every message, or a trusted server adds noise to the sum of a window of messages. Compiled loops call
`submit` and `receive`, one message at a time; `send_all` and `estimate_all` handle many at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.compiled import no_alloc_kernel
from dprl.privacy.base import Float64Array, Int64Array, LedgerError, TrustModel
from dprl.privacy.channel import RECEIVED, RELEASED, SENT, advance_received, advance_sent, new_cursor
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace, VectorMechanism
from dprl.privacy.mechanisms.vectors import RawVector, VectorNoise, fill_estimate, fill_message, fill_shrunk
from dprl.privacy.noise_design import Release
from dprl.privacy.queries.gradient_windows import Window, add_to_window, release_sum
from dprl.privacy.query import Query
from dprl.privacy.randomness.streams import Streams, noise_identity
from dprl.privacy.threat_models import ThreatModel, of_gradients


class GradientChannel(NamedTuple):
    """The channel of gradients.

    cursor int64[5]; noise: the randomizer; window: the server's side; message float64[m]: the current message.
    """

    cursor: Int64Array
    noise: VectorNoise
    window: Window | None
    message: Float64Array

    def __repr__(self) -> str:
        return f"GradientChannel({self.noise.dimension} numbers, {self.cursor[SENT]} submissions sent)"


@no_alloc_kernel
def submit(channel: GradientChannel, gradient: Float64Array, submission: int) -> None:
    """Client side: send the message of submission `submission` (from 1 on) for `gradient` float64[d].

    Raises LedgerError unless the submission is charged and is the next one to send.

    *Formal guarantee.* That of the mechanism; only the message leaves the agent's side here. With a window of a trusted
    server it is the clipped gradient, for that server only: see `receive`.

    Paper: [OT20] Algorithms 2 and 3.
    """
    advance_sent(channel.cursor, submission)
    _write(channel.window, channel, gradient, submission)


@no_alloc_kernel
def _write(window: Window | None, channel: GradientChannel, gradient: Float64Array, submission: int) -> None:
    """Write the message. `window` is an argument so that without one no code for windows is compiled."""
    if window is not None:
        fill_shrunk(channel.message, gradient, channel.noise)
    else:
        fill_message(channel.message, gradient, channel.noise, submission)


@no_alloc_kernel
def receive(channel: GradientChannel, out: Float64Array) -> None:
    """Server side: write the estimate of the gradient into `out` float64[d].

    With a window, `out` is the noisy sum of the window's gradients for its last message, and 0 for all others, so the
    sum of all `out` is that of all full windows.

    Raises LedgerError unless a message was sent and not yet received.

    *Formal guarantee.* Post-processing of messages with noise. With a window of a trusted server the noise is that of
    the law, drawn once for each window: one submission is in one window and changes its sum by at most the diameter of
    the clip, which the law hides.
    """
    advance_received(channel.cursor)
    _read(channel.window, channel, out)


@no_alloc_kernel
def _read(window: Window | None, channel: GradientChannel, out: Float64Array) -> None:
    """`receive`; `window` is an argument as in `_write`."""
    if window is not None:
        add_to_window(window, channel.noise, channel.message, channel.cursor, out)
    else:
        fill_estimate(out, channel.message, channel.noise)


@no_alloc_kernel
def send_all(values: Float64Array, gradients: Float64Array, noise: VectorNoise, first: int) -> None:
    """Client side: write the messages float64[k, m] of submissions first, first+1, ...

    *Formal guarantee.* That of the mechanism.
    """
    for i in range(values.shape[0]):
        fill_message(values[i], gradients[i], noise, first + i)


@no_alloc_kernel
def shrink_all(values: Float64Array, gradients: Float64Array, noise: VectorNoise) -> None:
    """Client side of a trusted server: write the clipped gradients float64[k, d], without noise."""
    for i in range(values.shape[0]):
        fill_shrunk(values[i], gradients[i], noise)


@no_alloc_kernel
def estimate_all(out: Float64Array, values: Float64Array, noise: VectorNoise) -> None:
    """Server side: write the estimates float64[k, d] of messages float64[k, m]; post-processing."""
    for i in range(out.shape[0]):
        fill_estimate(out[i], values[i], noise)


@dataclass(frozen=True)
class GradientLayout:
    """Sizes of gradients, and their use.

    >>> GradientLayout(dimension=130, window=50, paper=False).window
    50

    Args:
        dimension: d, of the gradients. window: B >= 1, number of gradients per update.
        left_open: other channels that the algorithm leaves open, in words for the certificate.
        draws: whether the algorithm lets a server draw the users of each round, see `SampledGradientQuery`.
        paper: whether settings that are left out are those of [OT20]; otherwise the least noise known.
    """

    dimension: int
    window: int = 1
    left_open: tuple[str, ...] = ()
    draws: bool = False
    paper: bool = True


@dataclass(frozen=True)
class GradientQuery(Query):
    """The gradient of an agent's episode.

    *Formal guarantee.* That of the law.

    Args:
        law: randomizes the gradient; RawVector sends it without noise.
        release_scores: 'simulator': raw scores are read; 'none': they are not.
        left_open: other channels that the algorithm leaves open, in words for the certificate.
        window: number of gradients that a trusted server sums before it adds the law's noise; 0 if agents add it.

    Raises:
        LedgerError: for a trusted server's window with a law that is no additive noise; for another value of
            `release_scores`.
    """

    law: VectorMechanism | RawVector
    release_scores: str = "simulator"
    left_open: tuple[str, ...] = ()
    window: int = 0
    name: ClassVar[str] = "gradients"
    adds_up_messages: ClassVar[bool] = True
    """True: noise of a window is numbered by its submissions."""
    sampled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.release_scores not in ("simulator", "none"):
            raise LedgerError(f"release_scores must be simulator or none, got {self.release_scores!r}; correct it")
        if self.window < 0:
            raise LedgerError(
                f"window must be at least 0, got {self.window}; 0 is for messages with noise of their own"
            )
        if self.window and not isinstance(self.law, ClippedGaussian | ClippedLaplace):
            raise LedgerError("a server releases sums of clipped gradients with additive noise; leave out the window")

    @property
    def dimension(self) -> int:
        """d, of the gradients."""
        return self.law.dimension

    @property
    def message_length(self) -> int:
        """Length of a message, for any data."""
        return self.law.message_length

    @property
    def noisy_sides(self) -> tuple[bool, bool]:
        """Whether there is noise on (the client's side, the server's side)."""
        noisy, server = not isinstance(self.law, RawVector), bool(self.window)
        return noisy and not server, noisy and server

    @property
    def identity(self) -> str:
        """Text that identifies record and noise."""
        window = f"|window {self.window}" if self.window else ""
        # The last two parts were those of bits on scores; they keep the keys of noise.
        return f"gradients|{noise_identity(self.law, None, math.inf)}{window}"

    def check_run(self, n_users: int, submissions: int) -> None:
        """Raise unless every user is at most once in a window, because its noise hides one gradient per user."""
        super().check_run(n_users, submissions)
        if submissions > 1 and self.window > n_users:
            raise LedgerError(f"window must be at most n_users, {n_users}, got {self.window}; lower it, or submissions")

    @property
    def noise_norm(self) -> float:
        """Root mean squared norm of the noise of a release, an upper bound."""
        return self.law.noise_norm

    def events(self, entropy: str) -> tuple[Release, ...]:
        """Return the releases of one submission."""
        law = None if isinstance(self.law, RawVector) else self.law
        return (Release("gradient", law, None, True, self.law.message_length, entropy),)

    def threat_model(self, model: TrustModel, submissions: int) -> ThreatModel:
        """Return the threat model."""
        return of_gradients(model, submissions, self.release_scores, self.left_open)

    def open(self, streams: Streams) -> GradientChannel:
        """Return the channel before the first submission."""
        window = None
        if self.window:
            nothing, held = np.zeros(0), np.zeros(1, dtype=np.int64)
            window = Window(self.window, np.zeros(self.dimension), held, None, nothing, nothing)
        return GradientChannel(new_cursor(), self.randomizer(streams), window, np.zeros(self.message_length))

    def changing(self, channel: GradientChannel) -> dict[str, np.ndarray]:
        """Return the sum of the current window, which stays with the server."""
        return {} if channel.window is None else {"window": channel.window.total}

    def randomizer(self, streams: Streams) -> VectorNoise:
        """Return the randomizer for kernels; with entropy `os` it has a new key every time."""
        return self.law.vector_noise(streams.key("user_noise", self.identity))

    def check_record(self, record: Float64Array) -> None:
        """Raise ValueError unless a record is a gradient float64[d]; the message reveals no content."""
        shape = np.shape(record)
        if shape != (self.dimension,):
            raise ValueError(
                f"a gradient must have shape ({self.dimension},), got {shape}; send one for each submission"
            )

    def send(self, channel: GradientChannel, record: Float64Array, user: int) -> None:
        """Client side: send the gradient float64[d] of submission `user`."""
        submit(channel, np.ascontiguousarray(record, dtype=np.float64), user)

    def receive_values(self, channel: GradientChannel, values: Float64Array) -> Float64Array:
        """Server side: return the content of a message from another process; a trusted server clips it again first."""
        out = np.zeros((1, self.dimension))
        if self.noisy_sides[1]:
            fill_shrunk(channel.message, values, channel.noise)
        else:
            channel.message[:] = values
        receive(channel, out[0])
        if not self.window:
            channel.cursor[RELEASED] = channel.cursor[RECEIVED]
        return out

    def read(self, channel: GradientChannel, messages: Float64Array, last: int) -> Float64Array:
        """Return the estimates float64[k, d] of messages float64[k, m]; post-processing.

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
        else:
            estimate_all(gradients, np.ascontiguousarray(messages), channel.noise)
        return gradients

    def _release(self, channel: GradientChannel, messages: Float64Array, last: int, out: Float64Array) -> None:
        """Server side: write the noisy sum of the messages of a window, with `last` the largest number among them."""
        if channel.window is not None:
            release_sum(channel.window.total, channel.message, channel.noise, messages, last, out)
