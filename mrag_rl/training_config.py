"""The settings of the agents and of their joint training: the parts of a configuration that training is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mrag_rl.choices import CandidateStateName
from mrag_rl.errors import InputError
from mrag_rl.settings import bounded


@dataclass(frozen=True)
class AgentConfig:
    """Hyperparameters of one DQN: one hidden layer of tanh units, linear output (M-RAG, Section 4.1)."""

    network: str | None = None
    """Import path of a function of your own that makes the Q-network, such as my_package.networks:deep
    (docs/plugins.md). null is one hidden layer of tanh units."""
    hidden: int = bounded(25, minimum=1, maximum=2**16)
    """Units of the hidden layer (the paper: 25); a function of your own is given this number."""
    learning_rate: float = bounded(2e-3, minimum=0, exclusive=True)
    """Learning rate of Adam."""
    weight_decay: float = bounded(0.01, minimum=0)
    """L2 penalty; without it, a few hundred queries are soon memorised. With state evidence, it draws Agent-S's network
    to what it learned before any answer."""
    gamma: float = bounded(1.0, minimum=0, maximum=1)
    """Discount per step; 1 as in Equation 6 ("when future rewards are not discounted"). Not read by Agent-S with state
    evidence: an episode is one choice."""
    buffer_size: int = bounded(50_000, minimum=1, maximum=10_000_000)
    """Capacity of the replay buffer, in transitions. Not read by Agent-S with state evidence: it replays a ledger."""
    batch_size: int = bounded(128, minimum=1, maximum=1_000_000)
    """Transitions in a minibatch."""
    gradient_steps: int = bounded(1, minimum=1, maximum=1_000_000)
    """Minibatches for each training query."""
    learning_starts: int = bounded(64, minimum=0)
    """Transitions in the replay buffer before learning begins."""
    target_update_interval: int = bounded(200, minimum=1)
    """Gradient steps between updates of the target network. Agent-S has no use for that with state evidence; there, it
    only changes which random numbers are drawn for what."""
    epsilon_start: float = bounded(1.0, minimum=0, maximum=1)
    """Probability of a random action at the start."""
    epsilon_end: float = bounded(0.05, minimum=0, maximum=1)
    """Probability of a random action at the end."""
    epsilon_fraction: float = bounded(0.6, minimum=0, maximum=1)
    """Share of training over which that probability falls, linearly."""


@dataclass(frozen=True)
class RefinementConfig:
    """What Agent-R does with a retrieved memory."""

    candidates: int = bounded(3, minimum=1, maximum=10_000)
    """Number of candidates K in a pool (the paper: 3)."""
    steps: int = bounded(3, minimum=0, maximum=10_000)
    """Number of steps J in an episode, each with a new pool; 0 refines nothing and trains Agent-S alone."""
    temperature: float = bounded(1.0, minimum=0)
    """Sampling temperature of the candidates; at 0 they would all be equal."""
    demonstrated: bool = False
    """Show the language model the memories retrieved beside the refined one when it writes candidates, as an answer's
    prompt does (needs ``demonstrations`` of 2 or more). false is the paper's: it sees the memory's source alone."""
    state: CandidateStateName = "candidates"
    """What Agent-R sees of each candidate: candidates (agreement, similarity to what was tried and to the memory's own
    texts, length), candidates_and_likelihood (these and the language model's own log-probability of the candidate) or
    equation_3 (similarity to the hypothesis alone, the paper's)."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision in which the encoder embeds hypotheses and candidates for Agent-R's state. bfloat16 is about three
    times as fast on a CPU with AMX, and slower on one without."""
    consolidate: bool = True
    """Collect improvements as proposals until the round ends; then each memory gets the target that scores best on the
    training queries nearest to it. false is the paper's rule: an improvement replaces the memory's target at once."""
    evidence: int = bounded(5, minimum=1, maximum=1_000_000)
    """Training queries on which each target of a memory is scored during consolidation."""
    held_out: bool = False
    """Score a target during consolidation only on queries that did not propose it, and shrink its mean gain towards
    that of all targets (``shrunk_means``): where an answer's score tells little about what it was shown."""


@dataclass(frozen=True)
class TrainingConfig:
    """The joint training loop (M-RAG, Algorithm 1)."""

    rounds: int = bounded(3, minimum=1, maximum=1_000_000)
    """Maximum number of passes over the training queries."""
    slots: int = bounded(64, minimum=1, maximum=1_000_000)
    """Queries trained on at once. 1 is Algorithm 1, together with rounds 1, reward equation_7, state equation_1 without
    center, refinement.state equation_3, refinement.consolidate false, demonstrations 1 and no arms."""
    selection_steps: int = bounded(1, minimum=1, maximum=10_000)
    """Number of partitions that Agent-S selects for a query, one after another."""
    center: bool = True
    """Subtract from Agent-S's similarities, query by query and head by head, their mean over the partitions."""
    patience: int = bounded(2, minimum=1)
    """Number of rounds without a better development score after which training stops."""
    checkpoint_every: int = bounded(4, minimum=1)
    """Batches of queries between checkpoints."""


def check_refinement(config: RefinementConfig, demonstrations: int) -> None:
    """Check what types and bounds cannot express. Raises an InputError that names the first bad key.

    demonstrations: how many memories a prompt shows.
    """
    if config.demonstrated and config.steps and demonstrations == 1:
        raise InputError(
            "refinement.demonstrated is true, but with demonstrations 1 no memory stands beside the refined one; raise "
            "demonstrations, or set refinement.demonstrated to false"
        )
    if config.held_out and not config.consolidate:
        raise InputError(
            "refinement.held_out is true, but with refinement.consolidate false no target is judged; set one of them "
            "the other way"
        )
