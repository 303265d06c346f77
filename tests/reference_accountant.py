"""Second accountant: it recomputes a certificate from its published fields, with numpy, scipy and math alone.

Nothing of dprl is imported, and nothing is done as in privacy/accounting. A release is the law of its privacy loss
L = ln dP/dQ under P, for the worst pair of neighbours, given by M(s) = E e^(sL); independent releases multiply. As the
integral of (1 - e^-x) e^(-sx) over x > 0 is 1 / (s (s + 1)), delta(epsilon) = E (1 - e^(epsilon - L))_+ is that of
M(s) e^(-s epsilon) / (2 pi i s (s + 1)) along c + iR, any c > 0, summed up through the saddle point.

Numbers are those of the pair, no upper bounds: to about 1e-6, and a delta at an atom of L to 1e-3. The worst pair is
not known for Laplace noise on Gram matrices at delta > 0: two bad pairs stand in. Shuffled reports have dprl's bound.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import betainc
from scipy.stats import binom

# Squared L2 distance of two Gram messages for the worst cosine c of their features, in units of m_h^4.
SQUARE = max(4.0 - 2.0 * c - 2.0 * c * c for c in np.linspace(-1.0, 1.0, 4001))
Loss = tuple[Any, ...]  # a law and its parameters
Losses = tuple[tuple[Loss, int], ...]  # and how often each occurs


def log_moment(loss: Loss, s: Any) -> Any:
    """Return ln E e^(sL) over finite L, without overflow for Re s > 0."""
    match loss:
        case "gaussian", square:
            return square * s * (s + 1.0) / 2.0
        case "laplace", a, limit:  # given that |noise| <= limit
            t, between = math.exp(-limit), -np.expm1(-a - 2.0 * s * a) / (1.0 + 2.0 * s)
            beyond = np.exp(-2.0 * s * a) * (math.exp(-a) - t)
            return s * a + np.log((1.0 - math.exp(a) * t + between + beyond) / (2.0 - 2.0 * t))
        case "uniform", a:
            return np.log1p(-a / 2.0) + 0.0 * s
        case "discrete", a, unit:  # geometric noise; the shift is a / unit
            q, shift = math.exp(-unit), round(a / unit)
            between = sum((1.0 - q) * q**j * np.exp(-2.0 * s * unit * j) for j in range(1, shift))
            return s * a + np.log((1.0 + between + np.exp(-a - 2.0 * s * a)) / (1.0 + q))
        case "signs", a, p:  # a with probability p, -a with p e^-a, else 0
            return s * a + np.log(p + p * np.exp(-a - 2.0 * s * a) + (1.0 - p - p * math.exp(-a)) * np.exp(-s * a))
    raise ValueError(f"unknown loss {loss}")


def response(a: float, share: float = 1.0) -> Loss:
    """Return the loss of a randomized response that is sent with probability `share`, else a fair coin."""
    return ("signs", a, share / (1.0 + math.exp(-a)))


def outside(loss: Loss) -> float:
    """Return the probability of an infinite loss: that of noise outside of the other world's support."""
    if loss[0] == "laplace":
        return float(math.expm1(loss[1]) * math.exp(-loss[2]) / (2.0 - 2.0 * math.exp(-loss[2])))
    return loss[1] / 2.0 if loss[0] == "uniform" else 0.0


def pure(losses: Losses, *, finite: bool = False) -> float:
    """Return the largest loss; `finite`: of those that are not infinite."""
    if not finite and any(outside(loss) for loss, _ in losses):
        return math.inf
    special = {"gaussian": math.inf, "uniform": 0.0}
    return math.fsum(n * (special[loss[0]] if loss[0] in special else float(loss[1])) for loss, n in losses)


@cache
def delta(losses: Losses, epsilon: float) -> float:
    """Return delta at epsilon."""
    if losses[0][0][0] == "shuffled":
        return shuffled_delta(losses[0][0][1], losses[0][0][2], epsilon)
    lost = -math.expm1(sum(n * math.log1p(-outside(loss)) for loss, n in losses))
    if pure(losses, finite=True) <= epsilon * (1.0 + 1e-12):
        return lost

    def exponent(s: Any) -> Any:
        return sum(n * log_moment(loss, s) for loss, n in losses) - s * epsilon - np.log(s) - np.log1p(s)

    c = math.exp(minimize_scalar(lambda x: exponent(math.exp(x)), bounds=(-25.0, 25.0), method="bounded").x)
    peak, near = exponent(c), 1e-3 * c
    deviation = math.sqrt(max(0.0, exponent(c + near) + exponent(c - near) - 2.0 * peak)) / near
    step = 2.0 * math.pi / max(12.0 * deviation, (45.0 + max(0.0, -peak)) / c)
    values = np.exp(exponent(c + 1j * step * np.arange(2**13)) - peak).real
    return float(lost + np.exp(peak) * max(0.0, step / math.pi * (values.sum() - values[0] / 2.0)))


@cache
def epsilon(losses: Losses, at: float) -> float:
    """Return the least epsilon with a delta of at most `at`."""
    top = pure(losses)
    if at == 0.0 or delta(losses, 0.0) <= at:
        return top if at == 0.0 else 0.0
    high = next((2.0**i for i in range(20) if 2.0**i >= top or delta(losses, 2.0**i) <= at), math.inf)
    return high if math.isinf(high) else float(brentq(lambda x: delta(losses, x) - at, 0.0, min(high, top), xtol=1e-12))


def shuffled_delta(loss: float, users: int, epsilon: float) -> float:
    """Return delta of one of `users` reports by the clones of Feldman, McMillan, Talwar 2021, as a plain double sum."""
    own, others, law = 1.0 / (1.0 + math.exp(-loss)), 1.0 / (1.0 + math.exp(loss)), binom(users - 1, math.exp(-loss))
    clones = np.arange(users)[np.abs(np.arange(users) - law.mean()) < 12.0 * law.std() + 12.0][:, None]
    ones = np.arange(clones[-1, 0] + 2)
    more, fewer = binom.pmf(ones - 1, clones, 0.5), binom.pmf(ones, clones, 0.5)
    gap = own * more + others * fewer - math.exp(epsilon) * (others * more + own * fewer)
    return float(law.pmf(clones[:, 0]) @ np.maximum(gap, 0.0).sum(axis=1))


@cache
def gram_pairs(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return |message - message'| of the pair of unit features that is furthest apart in L1 (searched), and in L2."""
    rows, columns = np.triu_indices(d)

    def apart(pair: np.ndarray) -> Any:
        x, y = (v / max(1e-9, float(np.linalg.norm(v))) for v in np.reshape(pair, (2, d)))
        return np.abs(np.concatenate([(np.outer(x, x) - np.outer(y, y))[rows, columns], x - y]))

    starts, options = np.random.default_rng(0).normal(size=(30, 2 * d)), {"maxiter": 4000, "xatol": 1e-7, "fatol": 1e-9}
    runs = [minimize(lambda v: -apart(v).sum(), v, method="Nelder-Mead", options=options) for v in starts]
    angles = np.pi / 4.0 + np.array([[1.0], [-1.0]]) * np.pi / 3.0
    circle = np.hstack([np.cos(angles), np.sin(angles), np.zeros((2, d - 2))])
    return apart(min(runs, key=lambda run: run.fun).x), apart(circle.ravel())


def gram_losses(p: Mapping[str, Any], name: str, pair: int) -> Counter[Loss]:
    """Return the losses of the Gram matrices of every agent and stage."""
    found: Counter[Loss] = Counter()
    for h in (h for h in range(p["cells"]) if p.get(f"release.bounds[{h}]")):
        scale, square = p[f"scales[{h}]"], p[f"release.bounds[{h}]"] ** 2
        law, last = ("uniform", ()) if "uniform" in name else ("laplace", (p.get(f"limits[{h}]", math.inf) / scale,))
        if name == "gram_gaussian":
            found["gaussian", SQUARE * (square / scale) ** 2] += p["release.n_messages"]
            continue
        for moved in gram_pairs(p["release.dimension"])[pair]:
            found[(law, float(f"{moved * square / scale:.9g}"), *last)] += p["release.n_messages"]
    return found


def additive_losses(name: str, scale: float, of: Mapping[str, float]) -> Counter[Loss]:
    """Return the losses of noise on numbers: Laplace noise loses more by one shift of u + v than by two, u and v."""
    if name.endswith("gaussian") or not of.get("l1"):
        return Counter({("gaussian", (of["l2"] / scale) ** 2): 1} if of.get("l2") else {})
    law, last = ("discrete", of["copies"] / scale) if name == "discrete_laplace" else ("laplace", math.inf)
    full, rest = divmod(of["l1"] * (1.0 + 1e-12), of["linf"])
    found = {(law, of["linf"] / scale, last): int(full), (law, rest / scale, last): int(rest > 1e-9 * of["linf"])}
    return Counter({loss: n for loss, n in found.items() if n})


def release_losses(f: Mapping[str, Any], pair: int) -> Counter[Loss] | None:
    """Return the losses of one release; None without noise, or where the device does not clip."""
    p = {key.removeprefix("parameters."): value for key, value in f.items()}
    name = f.get("mechanism") or "optimized_unary_encoding"  # golden records leave out words as long as this
    if name == "raw" or p.get("release.clipped") is False:
        return None
    if name.startswith("gram_"):
        return gram_losses(p, name, pair)
    if "report.encoding.epsilon" in p:
        return Counter({("shuffled", p["report.encoding.epsilon"], p["users"]): 1})
    if name.endswith("_encoding"):
        a, e = p["encoding.epsilon"], math.exp(p["encoding.epsilon"])
        told = response(a, (e + 1.0) / (e - 1.0 + p.get("encoding.width", e + 3.0)))
        return Counter({told: 1})
    if name == "projected_random_sign":
        return Counter({response(p["bit.epsilon"]): p["projections"]})
    if name == "privunit":
        q, inside = betainc((p["dimension"] - 1) / 2.0, 0.5, 1.0 - p["threshold"] ** 2) / 2.0, p["probability"]
        return Counter({("signs", math.log(inside * (1.0 - q) / ((1.0 - inside) * q)), inside): 1})
    if name.startswith("clipped_"):  # in any direction, so along one coordinate
        return additive_losses(name, f["scale"], dict.fromkeys(("l1", "l2", "linf"), p["clip"]) | {"copies": 1})
    return additive_losses(name, p["scale"], {k.split(".")[1]: x for k, x in f.items() if k.startswith("sensitivity.")})


def recomputed(certificate: Mapping[str, Any], slack: float = 0.0) -> dict[str, float]:
    """Return the `proved` numbers of a certificate, flat as in tests/golden; delta at a share `slack` less epsilon."""
    releases: dict[str, dict[str, Any]] = {}
    for key, value in certificate.items():
        if place := re.fullmatch(r"noise\[(\d+)\]\.(.*)", key):
            releases.setdefault(place[1], {})[place[2]] = value

    def losses(pair: int) -> Losses | None:
        total: Counter[Loss] = Counter()
        for f in releases.values():
            if (part := release_losses(f, pair)) is None:
                return None
            times = f["times"] * certificate["submissions"] * certificate["attempts"]
            total.update({loss: n * times for loss, n in part.items()})
        return tuple(sorted(total.items()))

    deltas = {f"epsilon_at_delta.{at:g}": at for at in (1e-5, 1e-6)}
    deltas |= {"pure_epsilon": 0.0, "epsilon_at_claimed_delta": certificate["claimed.delta"]}
    pairs = [losses(0), losses(1)]
    found = {path: max(math.inf if p is None else epsilon(p, at) for p in pairs) for path, at in deltas.items()}
    if (requested := certificate.get("requested.epsilon")) is not None:
        at = requested * (1.0 - slack)
        found["delta_at_requested_epsilon"] = max(1.0 if p is None else delta(p, at) for p in pairs)
    return {f"proved.{path}": float(value) for path, value in found.items()}
