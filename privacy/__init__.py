"""Noise and its price: mechanisms, counters, privatizers, the ledger and the certificate. Knows no learning."""

from __future__ import annotations

from dprl.privacy.base import (
    Contribution,
    CountFamilies,
    CountFamily,
    Guarantee,
    Precision,
    PrivateCounts,
    Report,
)
from dprl.privacy.certificate import Certificate, PrivacyRequest, certify
from dprl.privacy.compiled import kernel, source_digest
from dprl.privacy.counters.binary_tree import COUNTERS, BinaryTree, ExactCounter
from dprl.privacy.ledger import Ledger, LedgerError, Release
from dprl.privacy.mechanisms.laplace import MECHANISMS, Laplace
from dprl.privacy.privatizers import Privatizer
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.trust_models import TRUST_MODELS, CentralPrivacy, LocalPrivacy, NoPrivacy, PrivacyConfig

__all__ = [
    "COUNTERS",
    "MECHANISMS",
    "TRUST_MODELS",
    "BinaryTree",
    "CentralPrivacy",
    "Certificate",
    "Contribution",
    "CountFamilies",
    "CountFamily",
    "ExactCounter",
    "Guarantee",
    "Laplace",
    "Ledger",
    "LedgerError",
    "LocalPrivacy",
    "NoPrivacy",
    "Precision",
    "PrivacyConfig",
    "PrivacyRequest",
    "PrivateCounts",
    "Privatizer",
    "Release",
    "Report",
    "Streams",
    "certify",
    "kernel",
    "source_digest",
]
