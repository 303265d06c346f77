"""Privacy: queries, mechanisms, counters, the privatizer, the ledger and the certificate, independent of learning."""

from __future__ import annotations

from dprl.compiled import kernel
from dprl.privacy.base import Guarantee, LedgerError, Precision
from dprl.privacy.certificate import Certificate, PrivacyRequest, certify
from dprl.privacy.client import UserClient
from dprl.privacy.counters import COUNTERS
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.ledger import Journal, Ledger, LedgerSpec, ReleaseEvent
from dprl.privacy.mechanisms import MECHANISMS
from dprl.privacy.messages import PrivateMessages, SubmissionRange, UserMessage
from dprl.privacy.privatizer import ClientSpec, Privatizer
from dprl.privacy.queries.count_encoding import CountEncoding
from dprl.privacy.queries.count_families import CountFamilies, CountFamily, PooledFamilies, UserRecord
from dprl.privacy.queries.count_precision import NoiseSpec, WeightedSums
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.gradient_calibration import GradientLayout
from dprl.privacy.queries.gradient_client import GradientClient
from dprl.privacy.queries.gradients import GradientQuery, receive, submit
from dprl.privacy.queries.linear_statistics import StatisticsLayout, StatisticsQuery
from dprl.privacy.queries.linear_statistics_kernels import add_statistics, aggregate_statistics, send_statistics
from dprl.privacy.query import Query
from dprl.privacy.randomness.settings import NoiseConfig
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.resumable import ServerPrivatizer
from dprl.privacy.threat_models import ThreatModel
from dprl.privacy.trust_models import TRUST_MODELS
from dprl.privacy.trust_models.base import GradientSettings, Placed, TrustModelSettings
from dprl.privacy.trust_models.central import CentralGradientPrivacy, CentralPrivacy, CentralStatisticsPrivacy
from dprl.privacy.trust_models.local import (
    LocalGradientPrivacy,
    LocalPrivacy,
    LocalStatisticsPrivacy,
)
from dprl.privacy.trust_models.none import NoGradientPrivacy, NoPrivacy, NoStatisticsPrivacy
from dprl.privacy.trust_models.shuffle import ShufflePrivacy
from dprl.sources import source_digest

CountPrivatizer = Privatizer[CountQuery]
GradientPrivatizer = Privatizer[GradientQuery]
StatisticsPrivatizer = Privatizer[StatisticsQuery]
PrivacyConfig = TrustModelSettings[CountFamilies, CountQuery]
GradientPrivacyConfig = GradientSettings
StatisticsPrivacyConfig = TrustModelSettings[StatisticsLayout, StatisticsQuery]

__all__ = [
    "COUNTERS",
    "MECHANISMS",
    "TRUST_MODELS",
    "CentralGradientPrivacy",
    "CentralPrivacy",
    "CentralStatisticsPrivacy",
    "Certificate",
    "ChargeJournal",
    "ClientSpec",
    "CountEncoding",
    "CountFamilies",
    "CountFamily",
    "CountPrivatizer",
    "CountQuery",
    "GradientClient",
    "GradientLayout",
    "GradientPrivacyConfig",
    "GradientPrivatizer",
    "GradientQuery",
    "Guarantee",
    "Journal",
    "Ledger",
    "LedgerError",
    "LedgerSpec",
    "LocalGradientPrivacy",
    "LocalPrivacy",
    "LocalStatisticsPrivacy",
    "NoGradientPrivacy",
    "NoPrivacy",
    "NoStatisticsPrivacy",
    "NoiseConfig",
    "NoiseSpec",
    "Placed",
    "PooledFamilies",
    "Precision",
    "PrivacyConfig",
    "PrivacyRequest",
    "PrivateMessages",
    "Privatizer",
    "Query",
    "ReleaseEvent",
    "ServerPrivatizer",
    "ShufflePrivacy",
    "StatisticsLayout",
    "StatisticsPrivacyConfig",
    "StatisticsPrivatizer",
    "StatisticsQuery",
    "Streams",
    "SubmissionRange",
    "ThreatModel",
    "TrustModelSettings",
    "UserClient",
    "UserMessage",
    "UserRecord",
    "WeightedSums",
    "add_statistics",
    "aggregate_statistics",
    "certify",
    "kernel",
    "receive",
    "send_statistics",
    "source_digest",
    "submit",
]
