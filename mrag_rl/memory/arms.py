"""Arms: further entries of a database's list of partitions, for a selector to choose in place of a partition.

The arm ``whole`` contains every memory, the arm ``none`` no memory. They stand behind the partitions that the memories
are divided into, have names and columns of the membership as these do, and are allowed and forbidden as these are (see
``mrag_rl.access``). A database stores only which arms it has; everything else follows from that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import scipy.sparse

from mrag_rl.choices import ARM_NAMES, ArmName
from mrag_rl.errors import InputError

FACT = "arms"


def arm_facts(arms: Sequence[ArmName]) -> dict[str, str]:
    """What a database stores of its arms: nothing if it has none, so that it is as one of an earlier version."""
    return {FACT: " ".join(arms)} if arms else {}


def stored_arms(facts: Mapping[str, str]) -> tuple[ArmName, ...]:
    """The arms that a database has. Raises InputError for one that this version does not know."""
    arms = tuple(facts.get(FACT, "").split())
    check_arms(arms)
    return cast("tuple[ArmName, ...]", arms)


def check_arms(arms: Sequence[str], names: Sequence[str] = ()) -> None:
    """Raises InputError for an unknown arm, one given twice, and one whose name is also that of a partition."""
    for place, arm in enumerate(arms):
        if arm not in ARM_NAMES:
            raise InputError(f"unknown arm {arm!r}; choose from {', '.join(ARM_NAMES)}")
        if arm in arms[:place]:
            raise InputError(f"the arm {arm} is given twice; give it once")
        if ARM_NAMES[arm] in names:
            raise InputError(
                f"a partition is called {ARM_NAMES[arm]!r}, as the arm {arm} is, and allowing the one would allow the "
                "other; rename the label, or leave out the arm"
            )


def with_arms(membership: scipy.sparse.csr_array, arms: Sequence[ArmName]) -> scipy.sparse.csr_array:
    """The boolean membership (N, M) with a column for each arm."""
    if not arms:
        return membership
    columns = np.array([[arm == "whole" for arm in arms]] * membership.shape[0])
    return scipy.sparse.hstack([membership, scipy.sparse.csr_array(columns)], format="csr")
