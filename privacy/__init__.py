"""Privacy: settings, designs of noise, the privatizer, the ledger and the certificate, independent of learning.

From epsilon to the noise on counts:

* scale: `designs/counts.py` (settings, the least noise) -> `counters/selection.py` and `mechanisms/` (`calibrated`)
* draw, jdp: `queries/counts.py` (`open`, the keys; `release`) -> `counters/release.py` -> `mechanisms/laplace.py` etc.
* draw, ldp: `queries/counts.py` (`encode`) -> the law's file in `mechanisms/`
* proof: `queries/counts.py` (`events`) -> `noise_design.py` -> `accounting/` -> `ledger.py` -> `certificate.py`, and
  `verification.py` makes all of it again
"""

from __future__ import annotations

from dprl.privacy.base import LedgerError
from dprl.privacy.certificate import Certificate
from dprl.privacy.designs import PRIVACY_SETTINGS
from dprl.privacy.designs.counts import CountPrivacy
from dprl.privacy.designs.gradients import GradientPrivacy
from dprl.privacy.designs.linear_statistics import StatisticsPrivacy
from dprl.privacy.messages import Client, PrivateMessages, SubmissionRange
from dprl.privacy.noise_design import NoiseDesign
from dprl.privacy.privatizer import Privatizer
from dprl.privacy.queries.count_layout import CountFamilies, CountFamily, PooledFamilies, UserRecord
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.gradients import GradientLayout, GradientQuery
from dprl.privacy.queries.linear_statistics import StatisticsLayout, StatisticsQuery
from dprl.privacy.randomness.streams import NoiseConfig, Streams
from dprl.privacy.resumable import ServerPrivatizer, UserClient

CountPrivatizer = Privatizer[CountQuery]
GradientPrivatizer = Privatizer[GradientQuery]
StatisticsPrivatizer = Privatizer[StatisticsQuery]

__all__ = [
    "PRIVACY_SETTINGS",
    "Certificate",
    "Client",
    "CountFamilies",
    "CountFamily",
    "CountPrivacy",
    "CountPrivatizer",
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
    "UserRecord",
]
