"""A run of a privatizer continues from its own state only, whole and unchanged, and nothing of it is copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from dprl.privacy import Contribution, LedgerError, Privatizer
from tests.privacy.conftest import KINDS
from tests.privacy.counts.forging import resealed

Users = Callable[[Privatizer, int], list[Contribution]]
Maker = Callable[..., Privatizer]


def test_state_of_another_shape_or_after_the_start_is_refused(privatizer: Privatizer, users_of: Users) -> None:
    state = privatizer.state_dict()
    with pytest.raises(ValueError, match="'totals' is missing or of another shape"):
        privatizer.load_state_dict(state | {"totals": np.zeros((77, 1))})
    users = {"users": np.array([9, 3, 3, 3, 3])}
    with pytest.raises(ValueError, match="is not the one that was written"):
        privatizer.load_state_dict(state | users)
    with pytest.raises(ValueError, match=r"\[9, 3, 3, 3, 3\] users of 21"):
        privatizer.load_state_dict(resealed(privatizer, state | users))
    for key in {"noisy", "totals"} & set(state) if "noisy" in state else ():
        with pytest.raises(ValueError, match="is not the one that was written"):
            privatizer.load_state_dict(state | {key: state[key] + 1.0})
    with pytest.raises(ValueError, match="another seed or other settings"):
        privatizer.load_state_dict(state | {"fixed": state["fixed"] + np.uint8(1)})
    report = privatizer.encode(users_of(privatizer, 1)[0], 1)
    with pytest.raises(LedgerError, match="a message is under way"):
        privatizer.state_dict()
    privatizer.absorb(report)
    with pytest.raises(LedgerError, match="users up to 1 are charged here already"):
        privatizer.load_state_dict(state)


def test_the_state_of_another_kind_of_noise_or_another_seed_is_refused(
    kind: str, privatizer_of: Maker, users_of: Users
) -> None:
    next_kind = dict(zip(KINDS, [*KINDS][1:] + [*KINDS][:1], strict=True))[kind]
    for theirs in (privatizer_of(next_kind), privatizer_of(kind, 1)):
        theirs.absorb(theirs.encode(users_of(theirs, 1)[0], 1))
        with pytest.raises(ValueError, match=r"of another shape|other settings"):
            privatizer_of(kind).load_state_dict(theirs.state_dict())


def test_a_state_without_its_noise_is_refused(kind: str, privatizer_of: Maker, users_of: Users) -> None:
    before = privatizer_of(kind)
    for user, contribution in enumerate(users_of(before, 3), start=1):
        before.absorb(before.encode(contribution, user))
    state = before.state_dict()
    if "rows" in state and state["rows"].any():
        emptied = state | {"rows": state["rows"] * 0}
        with pytest.raises(ValueError, match="is not the one that was written"):
            privatizer_of(kind).load_state_dict(emptied)
        after = privatizer_of(kind)
        with pytest.raises(ValueError, match="do not belong together"):
            after.load_state_dict(resealed(after, emptied))
        assert not after.channel.receiver.totals.any()


def test_a_privatizer_cannot_be_copied(privatizer: Privatizer) -> None:
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(LedgerError, match="cannot be copied or pickled"):
            copied(privatizer)
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copied(privatizer.channel.sender.noise)
