"""Privacy: settings, designs of noise, the privatizer, the ledger and the certificate, independent of learning.

Follow epsilon to the noise: `designs/counts.py` (settings, scale) -> `noise_design.py` -> `privatizer.py` ->
`queries/count_kernels.py` (the message, the sums) -> `mechanisms/laplace.py` (the draw); and back to the proof:
`noise_design.py` -> `ledger.py` -> `certificate.py`.
"""

from __future__ import annotations

from dprl.privacy.base import LedgerError
from dprl.privacy.certificate import Certificate
from dprl.privacy.client import UserClient
from dprl.privacy.designs import PRIVACY_SETTINGS
from dprl.privacy.designs.counts import CountPrivacy
from dprl.privacy.designs.gradients import GradientPrivacy
from dprl.privacy.designs.linear_statistics import StatisticsPrivacy
from dprl.privacy.messages import PrivateMessages, SubmissionRange, UserMessage
from dprl.privacy.noise_design import NoiseDesign
from dprl.privacy.privatizer import Privatizer
from dprl.privacy.queries.count_families import CountFamilies, CountFamily, PooledFamilies, UserRecord
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.gradients import GradientClient, GradientLayout, GradientQuery
from dprl.privacy.queries.linear_statistics import StatisticsLayout, StatisticsQuery
from dprl.privacy.randomness.settings import NoiseConfig
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.resumable import ServerPrivatizer

CountPrivatizer = Privatizer[CountQuery]
GradientPrivatizer = Privatizer[GradientQuery]
StatisticsPrivatizer = Privatizer[StatisticsQuery]

__all__ = [
    "PRIVACY_SETTINGS",
    "Certificate",
    "CountFamilies",
    "CountFamily",
    "CountPrivacy",
    "CountPrivatizer",
    "GradientClient",
    "GradientLayout",
    "GradientPrivacy",
    "GradientPrivatizer",
    "LedgerError",
    "NoiseConfig",
    "NoiseDesign",
    "PooledFamilies",
    "PrivateMessages",
    "Privatizer",
    "ServerPrivatizer",
    "StatisticsLayout",
    "StatisticsPrivacy",
    "StatisticsPrivatizer",
    "Streams",
    "SubmissionRange",
    "UserClient",
    "UserMessage",
    "UserRecord",
]
