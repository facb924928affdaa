"""What a new memory database is checked for before it is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mrag_rl.choices import ArmName
from mrag_rl.data.records import TextPair
from mrag_rl.errors import InputError
from mrag_rl.memory.arms import arm_facts, check_arms

if TYPE_CHECKING:  # both are heavy to import
    from mrag_rl.encoders import Embeddings
    from mrag_rl.partitioning import Partitioning


def check_contents(
    folder: Path,
    pairs: Sequence[TextPair],
    embeddings: Embeddings,
    partitioning: Partitioning,
    pair_embeddings: Embeddings | None,
    arms: Sequence[ArmName],
    encoder_fingerprint: str,
) -> None:
    """Check the arguments of ``MemoryDatabase.create``.

    Raises InputError if the folder exists, there are no pairs, the parts differ in length, vectors are of another
    encoder, or an arm is unknown, repeated, or named as a partition is.
    """
    if folder.exists():
        raise InputError(f"{folder}: exists already; open it, remove it or choose another folder")
    if not pairs:
        raise InputError(f"{folder}: no pairs to create a memory database from; give one or more")
    lengths = {len(pairs), len(embeddings.standard), len(embeddings.heads), partitioning.membership.shape[0]}
    if pair_embeddings is not None:
        lengths.add(len(pair_embeddings.heads))
    if len(lengths) > 1:
        raise InputError(
            f"{folder}: pairs, embeddings and partitioning differ in length {sorted(lengths)}; "
            "make all of them from the same pairs"
        )
    for name, vectors in (("embeddings", embeddings), ("pair_embeddings", pair_embeddings)):
        if vectors is not None:
            vectors.check_comparable(vectors.shape, encoder_fingerprint, f"{folder}: {name}", "encoder_fingerprint")
    check_arms(arms, partitioning.names)


def facts_of(
    encoder_fingerprint: str, embeddings: Embeddings, pair_embeddings: Embeddings | None, arms: Sequence[ArmName]
) -> dict[str, str]:
    """What a database says of itself; see ``checks.check_facts``."""
    return {
        "encoder_fingerprint": encoder_fingerprint,
        "heads": str(embeddings.heads.shape[1]),
        "peeking": "false" if pair_embeddings is None else "true",
        **arm_facts(arms),
    }
