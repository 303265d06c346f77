"""Noise and its price: mechanisms, counters, privatizers, the ledger and the certificate. Knows no learning."""

from __future__ import annotations

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
from dprl.privacy.certificate import Certificate, PrivacyRequest, certify
from dprl.privacy.channels import NoiseParts
from dprl.privacy.compiled import kernel, source_digest
from dprl.privacy.counters import COUNTERS
from dprl.privacy.layouts import Layout
from dprl.privacy.ledger import Ledger, Release
from dprl.privacy.mechanisms import MECHANISMS
from dprl.privacy.precision import WeightedSums
from dprl.privacy.privatizers import Privatizer
from dprl.privacy.randomness.settings import NoiseConfig
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.submissions import SubmissionLedger
from dprl.privacy.trust_models import TRUST_MODELS, CentralPrivacy, LocalPrivacy, NoPrivacy, PrivacyConfig

__all__ = [
    "COUNTERS",
    "MECHANISMS",
    "TRUST_MODELS",
    "CentralPrivacy",
    "Certificate",
    "Contribution",
    "CountFamilies",
    "CountFamily",
    "Guarantee",
    "Layout",
    "Ledger",
    "LedgerError",
    "LocalPrivacy",
    "NoPrivacy",
    "NoiseConfig",
    "NoiseParts",
    "Precision",
    "PrivacyConfig",
    "PrivacyRequest",
    "PrivateCounts",
    "Privatizer",
    "Release",
    "Report",
    "Scope",
    "Streams",
    "SubmissionLedger",
    "WeightedSums",
    "certify",
    "kernel",
    "source_digest",
]
