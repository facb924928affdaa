"""A training stage of a run: M-RAG itself or one of its ablations (two of them in Table 4), up to its selector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mrag_rl.agents.agent import Agent
from mrag_rl.agents.calibration import Calibration, GainLine, deciles
from mrag_rl.agents.callback import Callback
from mrag_rl.agents.context import JointContext, Queries
from mrag_rl.agents.dqn import DQNAgent
from mrag_rl.agents.evidence_agent import EvidenceAgent
from mrag_rl.agents.heuristics import BestCandidate, OnlyPartition, RandomAction
from mrag_rl.agents.joint import train_jointly
from mrag_rl.choices import CandidateStateName, RewardName, StateName
from mrag_rl.data import load_pairs
from mrag_rl.encoder_config import EncoderConfig
from mrag_rl.encoders import Embeddings, RunEncoder
from mrag_rl.envs.candidates import candidate_features
from mrag_rl.envs.partition_selection import answer_scores
from mrag_rl.envs.states import observe, state_size
from mrag_rl.evaluation.results import versions
from mrag_rl.evaluation.run_plots import calibration_curve, gain_curve
from mrag_rl.generation.writer import Writer
from mrag_rl.memory import MemoryDatabase
from mrag_rl.metrics.text import get_metric
from mrag_rl.normalizer import StateNormalizer
from mrag_rl.runs.folder import RunFolder
from mrag_rl.selector_export import export_selector
from mrag_rl.selector_info import SelectorInfo
from mrag_rl.states import StateReader, feature_groups, feature_names
from mrag_rl.states.ledger import without_luck
from mrag_rl.training_config import AgentConfig, RefinementConfig, TrainingConfig

# The feature of a candidate by which each ablation picks one.
_RULES = {
    "without_r": "hypothesis",
    "consensus_r": "agreement",
    "neighbours_r": "neighbours",
    "likely_r": "log-probability",
}


@dataclass(frozen=True)
class TrainingStage:
    """The settings of one training.

    Without Agent-S there is one partition and nothing to select; without Agent-R a rule picks the candidate to try:
    the most similar to the hypothesis (the paper's greedy rule), or another.

    Attributes:
        ablation: a value of `mrag_rl.choices.ABLATION_OF`, or None for M-RAG itself.
        metric: name of the metric that rewards are differences of.
        encoder: what the exported selector says of its encoder.
    """

    ablation: str | None
    task: str
    metric: str
    state: StateName
    reward: RewardName
    agent_s: AgentConfig
    agent_r: AgentConfig
    refinement: RefinementConfig
    training: TrainingConfig
    encoder: EncoderConfig
    seed: int

    @property
    def name(self) -> str:
        """The stage's name in `run.json`."""
        return f"train_{self.ablation}" if self.ablation else "train"

    @property
    def system(self) -> str:
        """The name of the system that it trains."""
        return f"m_rag_{self.ablation}" if self.ablation else "m_rag"

    def carry_out(
        self,
        run: RunFolder,
        encoder: RunEncoder,
        candidate_encoder: RunEncoder,
        writer: Writer,
        *,
        progress: bool,
        callbacks: Sequence[Callback] = (),
    ) -> dict[str, float]:
        """Train in the run's folder, or the ablation's, and export the selector. Returns seconds by part.

        Raises TrainingStopped if a callback stops it.
        """
        folder = run.ablation(self.ablation) if self.ablation else run
        with MemoryDatabase.open(folder.database) as database:
            agent_s, agent_r = self._agents(database)
            context = JointContext(
                database=database,
                train=_queries(run, "train"),
                dev=_queries(run, "dev"),
                encoder=encoder,
                candidate_encoder=candidate_encoder,
                writer=writer,
                metric=get_metric(self.metric),
                agent_s=agent_s,
                agent_r=agent_r,
                # Without Agent-S there is nothing to observe, and the cheapest state will do.
                state="single" if self.state == "evidence" and self.ablation == "without_s" else self.state,
                reward=self.reward,
                refinement=replace(self.refinement, state=self._candidate_state(database.heads)),
                training=self.training,
                seed=self.seed,
            )
            for callback in callbacks:
                callback.system, callback.context = self.system, context
            result = train_jointly(context, folder.root, progress=progress, callbacks=callbacks)
            if isinstance(agent_s, DQNAgent):
                margin, line = _calibrate(context, agent_s, result.normalizer, folder.calibration)
                self._export(folder, agent_s, result.normalizer, context, margin, line)
        return result.seconds

    def _agents(self, database: MemoryDatabase) -> tuple[Agent, Agent]:
        agent_s: Agent = OnlyPartition()
        if self.ablation != "without_s":
            seed = _agent_seed(self.seed, "s")
            if self.state == "evidence":
                groups = feature_groups(database.heads, arms=bool(database.arms))
                agent_s = EvidenceAgent(groups, database.partitions, self.agent_s, seed)
            else:
                agent_s = DQNAgent(state_size(database, self.state), database.partitions, self.agent_s, seed)
        candidates, seed = self.refinement.candidates, _agent_seed(self.seed, "r")
        state = self._candidate_state(database.heads)
        names = candidate_features(database.heads, state)
        agent_r: Agent
        if self.ablation == "random_r":
            agent_r = RandomAction(candidates, seed)
        elif self.ablation in _RULES:
            agent_r = BestCandidate(names.index(_RULES[self.ablation]), len(names))
        else:
            features = None if state == "equation_3" else len(names)
            agent_r = DQNAgent(candidates * len(names), candidates, self.agent_r, seed, features=features)
        return agent_s, agent_r

    def _candidate_state(self, heads: int) -> CandidateStateName:
        """The configured state of candidates; for a rule without the likelihood, unless it needs that to pick by."""
        configured = self.refinement.state
        if self.ablation in (None, "without_s"):
            return configured
        small: CandidateStateName = "equation_3" if configured == "equation_3" else "candidates"
        states: tuple[CandidateStateName, ...] = (small, "candidates", "candidates_and_likelihood")
        needed = _RULES.get(self.ablation, "hypothesis")
        return next(state for state in states if needed in candidate_features(heads, state))

    def _export(
        self,
        folder: RunFolder,
        agent_s: DQNAgent,
        normalizer: StateNormalizer,
        context: JointContext,
        margin: float,
        line: GainLine,
    ) -> None:
        database = context.database
        info = SelectorInfo(
            state=self.state,
            partition_names=tuple(database.names),
            task=self.task,
            metric=self.metric,
            encoder=self.encoder.name,
            encoder_fingerprint=context.encoder.fingerprint,
            encoder_layer=self.encoder.layer,
            encoder_pooling=self.encoder.pooling,
            encoder_standard=self.encoder.standard,
            versions=versions(),
            features=feature_names(self.state, database.heads, arms=bool(database.arms)),
            margin=margin,
            demonstrations=context.writer.demonstrations,
            gain_slope=line.slope,
            gain_intercept=line.intercept,
        )
        export_selector(
            folder.selector, weights=agent_s.weights(), normalizer=normalizer, info=info, hidden=agent_s.hidden_layers()
        )


def _calibrate(
    context: JointContext, agent_s: DQNAgent, normalizer: StateNormalizer, folder: Path
) -> tuple[float, GainLine]:
    """How far Agent-S can be trusted and what it gains, on the development queries and the refined database.

    Returns the margin and the line of gains; writes the curves behind them to `folder`.
    """
    dev, database = context.dev, context.database
    observations = observe(StateReader(database, context.state), dev.sources(), dev.embeddings, normalizer)
    choices, values = agent_s.act(observations), agent_s.q_values(observations)

    def score(partitions: np.ndarray | None, *, originals: bool = False) -> np.ndarray:
        return answer_scores(
            database, dev.pairs, dev.embeddings, context.writer, context.metric, partitions, originals=originals
        )

    chosen = score(choices)
    calibration = Calibration.of(values, chosen, score(None))
    margin = calibration.margin()
    curve = calibration_curve(calibration.margins, calibration.coverage, calibration.precision, margin)
    curve.save(folder, "margin")
    naive = score(None, originals=True)
    best, gains = values[np.arange(len(choices)), choices], without_luck(chosen - naive, naive)
    line = GainLine.fit(best, gains)
    gain_curve(*deciles(100.0 * line(best), 100.0 * gains)).save(folder, "gain")
    return margin, line


def _queries(run: RunFolder, split: str) -> Queries:
    return Queries(load_pairs(run.pairs(split)), Embeddings.load(run.embeddings(split)))


def _agent_seed(seed: int, agent: str) -> int:
    """A seed of its own for each agent."""
    return int(np.random.SeedSequence([seed, ord(agent)]).generate_state(1)[0])
