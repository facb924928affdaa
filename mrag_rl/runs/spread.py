"""The models of a run on the workers of a Ray cluster (`--cluster`, docs/cluster.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial

from mrag_rl.choices import INSIDE_LLM
from mrag_rl.cluster import Cluster, ClusterEncoder, ClusterLLM, connected
from mrag_rl.config import Config
from mrag_rl.encoders import RunEncoder
from mrag_rl.errors import InputError
from mrag_rl.generation.llm import LLM
from mrag_rl.runs.models import Report, RunModels, llm_config


@contextmanager
def spread_models(
    config: Config, report: Report, *, address: str, workers: int | None, beside: int
) -> Iterator[RunModels]:
    """The models of a run, each on every worker of a cluster, until the block ends.

    What answers many at once where it is, a server or code of the user's own, stays with this process.

    report: is told of the cluster. address, workers, beside: see `mrag_rl.cluster.connected`.

    Raises InputError: nothing of the run can be spread, or there is no such cluster.
    """
    check_spreads(config)
    gpus = config.llm.device != "cpu" or config.encoder.device != "cpu"
    with connected(address, workers, gpus=gpus, beside=beside) as cluster:
        report(f"spreading the models over {cluster.shares}")
        yield _SpreadModels(config, cluster)


def check_spreads(config: Config) -> None:
    """Raises InputError if nothing of a run can be spread over a cluster."""
    if not (_llm_spreads(config) or _encoder_spreads(config)):
        raise InputError("--cluster spreads models that are loaded here, but this run has a server or code of your own")


class _SpreadModels(RunModels):
    """Those that this process asks; what every worker loads are `RunModels`."""

    def __init__(self, config: Config, cluster: Cluster) -> None:
        super().__init__(config)
        # Of the task, a model needs no more than where texts end, and its code may be here alone.
        alike = replace(config, task="summarization", llm=llm_config(config))
        self._workers = cluster.start(partial(RunModels, alike))

    @cached_property
    def llm(self) -> LLM:
        return ClusterLLM(self._workers, "llm") if _llm_spreads(self.config) else super().llm

    @cached_property
    def encoder(self) -> RunEncoder:
        return ClusterEncoder(self._workers, "encoder") if _encoder_spreads(self.config) else super().encoder

    @cached_property
    def candidate_encoder(self) -> RunEncoder:
        if self.config.refinement.dtype == "float32":
            return self.encoder
        return ClusterEncoder(self._workers, "candidate_encoder")  # Code of the user's own has no such setting


def _llm_spreads(config: Config) -> bool:
    return config.llm.server is None and not config.llm.own_code


def _encoder_spreads(config: Config) -> bool:
    inside = config.encoder.name == INSIDE_LLM
    return _llm_spreads(config) if inside else not config.encoder.own_code
