"""Noise and its price: mechanisms, counters, privatizers, the ledger and the certificate. Knows no learning."""

from __future__ import annotations

from dprl.compiled import kernel
from dprl.privacy.base import (
    Contribution,
    CountFamilies,
    CountFamily,
    Guarantee,
    LedgerError,
    Precision,
    PrivateCounts,
    Report,
    Scope,
)
from dprl.privacy.bits import (
    BIT_TRUST_MODELS,
    BitChannel,
    BitPrivacyConfig,
    BitPrivatizer,
    LocalBitPrivacy,
    NoBitPrivacy,
    receive_bit,
    send_bit,
)
from dprl.privacy.certificate import Certificate, Certifies, PrivacyRequest, certify
from dprl.privacy.counters import COUNTERS
from dprl.privacy.counts.channels import NoiseParts
from dprl.privacy.counts.layouts import Layout
from dprl.privacy.counts.precision import WeightedSums
from dprl.privacy.counts.privatizers import Privatizer
from dprl.privacy.counts.trust_models import TRUST_MODELS, CentralPrivacy, LocalPrivacy, NoPrivacy, PrivacyConfig
from dprl.privacy.gradients.channels import GradientChannel, receive, submit
from dprl.privacy.gradients.leases import Lease, PrivateMessages
from dprl.privacy.gradients.privatizers import GradientPrivatizer
from dprl.privacy.gradients.senders import GradientSender, SenderSpec
from dprl.privacy.gradients.trust_models import (
    GRADIENT_TRUST_MODELS,
    GradientPrivacyConfig,
    LocalGradientPrivacy,
    NoGradientPrivacy,
)
from dprl.privacy.ledgers.journal import SubmissionJournal
from dprl.privacy.ledgers.ledger import Ledger, Release
from dprl.privacy.ledgers.submissions import Journal, SubmissionLedger
from dprl.privacy.linear_statistics.privatizers import (
    StatisticsChannel,
    StatisticsLayout,
    StatisticsPrivatizer,
    add_statistics,
    send_statistics,
)
from dprl.privacy.linear_statistics.trust_models import (
    STATISTICS_TRUST_MODELS,
    LocalStatisticsPrivacy,
    NoStatisticsPrivacy,
    StatisticsPrivacyConfig,
)
from dprl.privacy.mechanisms import MECHANISMS
from dprl.privacy.randomness.settings import NoiseConfig
from dprl.privacy.randomness.streams import Streams
from dprl.sources import source_digest

__all__ = [
    "BIT_TRUST_MODELS",
    "COUNTERS",
    "GRADIENT_TRUST_MODELS",
    "MECHANISMS",
    "STATISTICS_TRUST_MODELS",
    "TRUST_MODELS",
    "BitChannel",
    "BitPrivacyConfig",
    "BitPrivatizer",
    "CentralPrivacy",
    "Certificate",
    "Certifies",
    "Contribution",
    "CountFamilies",
    "CountFamily",
    "GradientChannel",
    "GradientPrivacyConfig",
    "GradientPrivatizer",
    "GradientSender",
    "Guarantee",
    "Journal",
    "Layout",
    "Lease",
    "Ledger",
    "LedgerError",
    "LocalBitPrivacy",
    "LocalGradientPrivacy",
    "LocalPrivacy",
    "LocalStatisticsPrivacy",
    "NoBitPrivacy",
    "NoGradientPrivacy",
    "NoPrivacy",
    "NoStatisticsPrivacy",
    "NoiseConfig",
    "NoiseParts",
    "Precision",
    "PrivacyConfig",
    "PrivacyRequest",
    "PrivateCounts",
    "PrivateMessages",
    "Privatizer",
    "Release",
    "Report",
    "Scope",
    "SenderSpec",
    "StatisticsChannel",
    "StatisticsLayout",
    "StatisticsPrivacyConfig",
    "StatisticsPrivatizer",
    "Streams",
    "SubmissionJournal",
    "SubmissionLedger",
    "WeightedSums",
    "add_statistics",
    "certify",
    "kernel",
    "receive",
    "receive_bit",
    "send_bit",
    "send_statistics",
    "source_digest",
    "submit",
]
