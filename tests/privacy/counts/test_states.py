"""A run of a privatizer continues only from its own complete and unchanged state, and cannot be copied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dprl.privacy import CountPrivatizer, LedgerError, UserRecord
from dprl.privacy.queries.counts import add_message
from tests.privacy.conftest import KINDS
from tests.privacy.sending import message_of, sent

Users = Callable[[CountPrivatizer, int], list[UserRecord]]
Maker = Callable[..., CountPrivatizer]


def test_state_of_another_shape_or_after_the_start_is_refused(privatizer: CountPrivatizer, users_of: Users) -> None:
    state = privatizer.state_dict()
    with pytest.raises(ValueError, match="'totals' is missing or of another shape"):
        privatizer.load_state_dict(state | {"totals": np.zeros((77, 1))})
    cursor = np.array([9, 3, 3, 3, 3])
    with pytest.raises(ValueError, match="is not the one that was written"):
        privatizer.load_state_dict(state | {"cursor": cursor})
    for key in {"noisy", "totals", "rows"} & set(state):
        with pytest.raises(ValueError, match="is not the one that was written"):
            privatizer.load_state_dict(state | {key: state[key] + 1.0})
    with pytest.raises(ValueError, match="another seed or other settings"):
        privatizer.load_state_dict(state | {"fixed": state["fixed"] + np.uint8(1)})
    message_of(privatizer, users_of(privatizer, 1)[0], 1)
    with pytest.raises(LedgerError, match="a message is under way"):
        privatizer.state_dict()
    add_message(privatizer.channel)
    with pytest.raises(LedgerError, match="submissions up to 1 are charged here already"):
        privatizer.load_state_dict(state)


def test_the_state_of_another_kind_of_noise_or_another_seed_is_refused(
    kind: str, privatizer_of: Maker, users_of: Users
) -> None:
    kinds = list(KINDS)
    following = kinds[(kinds.index(kind) + 1) % len(kinds)]
    for theirs in (privatizer_of(kind, 1), privatizer_of(following)):
        sent(theirs, users_of(theirs, 1)[0], 1)
        with pytest.raises(ValueError, match=r"of another shape|other settings"):
            privatizer_of(kind).load_state_dict(theirs.state_dict())
