"""The settings of sweep, tune, gate and of the commands on finished runs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from mrag_rl.choices import EvaluatedPart, PaperScale
from mrag_rl.config import Config
from mrag_rl.data_config import DataConfig
from mrag_rl.errors import InputError
from mrag_rl.settings import OnCluster, bounded


@dataclass(frozen=True)
class SystemsSettings(OnCluster):
    """Answer the run's test pairs again with every system and compare them, without training anything.

      none                no retrieval at all
      train_pairs         the nearest training pair with its reference, no memory
      copy                the nearest memory's target, without the language model
      naive               the nearest memory of the whole, unrefined database
      naive_train         the nearest of these memories and the training pairs, so it is told the training references
      naive_words         the nearest by BM25
      naive_hybrid        the nearest by BM25 and standard embedding together
      naive_heads         the nearest by all heads on average
      naive_revised       the nearest of the memories that refinement changed, and of all memories of the partitions
                          where it changed none
      random_partition    the nearest memory of a random partition
      best_partition      the nearest memory of one partition for all texts, the best on the development queries
      nearest_partition   the nearest memory of the partition that is most similar to the query
      classifier          logistic regression from embedding to partition, fitted on the memories alone
      classifier_words    the same from words
      consensus           of all partitions' answers, the one that agrees best with the others
      consensus_ranks, consensus_random, consensus_samples
                          placebos: the same with the nearest memory, the next and so on, with random groups, and with
                          sampled answers; as many of them
      supervised_copies   the best of many regressions, told what every partition's nearest target, copied, would score
                          on the training and development queries, by the run's metric or by ROUGE-1, whichever does
                          better on the development queries
      supervised_trials   the best of many regressions, told the gains of Agent-S's own trials, and every partition's
                          score on the development queries
      supervised          the best of many regressions, told every partition's score on the training and development
                          queries (one generation per such query and partition)
      supervised_answers  of all partitions' answers, the one that a regression prefers, told the scores of all answers
                          to the training and development queries (one generation per such query and partition)
      supervised_answers_ranks, supervised_answers_random, supervised_answers_samples
                          placebos: the same with the answers of the placebos of consensus
      selfmem             the model's own best answer, by a regression, becomes its nearest memory, twice
      selfmem_without_selector, selfmem_one_iteration
                          its ablations: the greedy answer becomes the memory; only once
      self_rag            of the answers with the nearest memory, the next and so on, the one that the model finds most
                          probable and judges best; without a memory where it judges that none helps
      self_rag_always, self_rag_without_critique
                          its ablations: always with a memory; without judgements of the answers
      stopping            answers with the nearest memory of all, then with that of each partition in turn, until an
                          agent stops it that is paid for their scores; two to a training query on average
      stopping_ahead, stopping_agreement, two_answers
                          rivals: a regression that looks one answer ahead; a threshold on agreement; always two
      oracle_partition    the best partition in hindsight: the ceiling for any selector
      oracle_refined      the same on the refined database
      oracle_samples      placebo: the best of as many sampled answers with the nearest memory
      oracle_random       placebo: the best of random groups as large as the partitions
      m_rag               the trained selector on the refined database
      m_rag_fallback      the same, but the whole database where the selector is in doubt
      m_rag_revised       the nearest of the memories that refinement changed in the selected partition; of all its
                          memories if there are none
      m_rag_consensus     of the answers with the whole refined database and with the selector's best partitions, as
                          many as there are partitions, the one that agrees best with the others
      m_rag_answers       of the same answers, the one that a regression prefers, told the scores of all answers to the
                          training and development queries, and the selector's values
      m_rag_without_s     one partition, refined by Agent-R (the paper's Table 4)
      m_rag_without_r     the trained selector, refined by the greedy rule (the paper's Table 4)
      m_rag_random_r, m_rag_consensus_r, m_rag_neighbours_r, m_rag_likely_r
                          the same by other rules: a random candidate, the one most similar to the others or to the
                          nearest memories' targets, or the one most probable to the language model itself

    "The nearest memory" stands for as many as the run's setting demonstrations says (copy: one).

    These also read the refined database: copy_refined, naive_refined, naive_train_refined, naive_words_refined,
    naive_hybrid_refined, naive_heads_refined, nearest_partition_refined, classifier_refined, classifier_words_refined,
    consensus_refined.
    Any system but the ablations can be named, even if the run's own evaluation left it out.

    examples:
      python evaluate.py systems --run runs/quickstart
          all systems; prints the table, writes runs/quickstart/evaluation/
      python evaluate.py systems --run runs/quickstart --systems naive m_rag --output two
          two of them, written to the folder two
    """

    run: str
    """Run folder that train.py made."""
    systems: tuple[str, ...] | None = None
    """Systems to compare; null is those of the run."""
    queries: EvaluatedPart = "test"
    """The pairs to answer: test, or dev, on which to choose a rival before its test scores are seen. Agent-S and the
    supervised systems choose among what they learned by their development scores, which are flattering therefore."""
    output: str | None = None
    """Folder to write to; null is RUN/evaluation, or RUN/evaluation_dev for dev."""
    trust: tuple[str, ...] = ()
    """Import paths of code that the run's settings name, and that may therefore run (docs/plugins.md)."""


@dataclass(frozen=True)
class CheckSettings:
    """Check whether a run's files are as its stages left them: data, embeddings, databases, selectors, logs, results
    and the cache of generated texts. Says what is damaged, and what can be saved. A resumed run is checked by itself.

    examples:
      python evaluate.py check runs/quickstart
    """

    run: str
    """Run folder that train.py made."""


@dataclass(frozen=True)
class GateSettings(Config, OnCluster):
    """Measure whether memories help a language model on a corpus, before training: answer development queries without a
    memory, with random memories and with the nearest, and compare. `demonstrations` is ignored: it is one and three.

    The settings are those of a run, and so are the data, their split, the encoder, the language model and the metrics.
    Nothing is trained and no test query is read. Memories help if naive, words or hybrid, with one or three, gain over
    none with p < 0.05 after Holm's correction for these six. If they do not, the corpus is a negative control.

      none                no memory
      copy, copy_words    the nearest memory's target, without the language model
      random, random_3    one random memory, three
      naive, naive_3      the nearest by standard embedding
      words, words_3      the nearest by BM25
      hybrid, hybrid_3    the nearest by both together

    examples:
      python evaluate.py gate --config configs/real/jrc-acquis-de-en.yaml --data.pairs de-en.jsonl
      python evaluate.py gate --config configs/quickstart.yaml --queries 50 --output out
    """

    output: str | None = None
    """Folder to write to; null is gate/NAME. It also keeps the generated texts, so that a stopped gate resumes."""
    queries: int = bounded(100, minimum=1)
    """Maximum number of development queries to answer: the first ones. With data.group, groups (dialogues) in random
    order, by the seed, all of their queries; the last group is cut to fit."""

    def folder(self) -> Path:
        """Where the results go."""
        return Path(self.output or f"gate/{self.name}")


@dataclass(frozen=True, kw_only=True)
class SeveralRuns(Config, OnCluster):
    """The settings of a run, and what the commands that train several have besides."""

    jobs: int = bounded(1, minimum=1, maximum=10_000)
    """Runs at a time. Processor cores, and the devices in CUDA_VISIBLE_DEVICES, are divided among them."""
    runs: str = "runs"
    """Folder that holds the folder NAME, in which the runs are."""
    plan: bool = False
    """Print how many runs there are and stop."""

    @property
    def folder(self) -> Path:
        """The folder of the runs."""
        return Path(self.runs) / self.name

    def run_config(self) -> Config:
        """The settings of a run alone."""
        return Config(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Config)})


@dataclass(frozen=True, kw_only=True)
class SweepSettings(SeveralRuns):
    """Train a run for every combination of a grid of settings, several at a time, and compare them.

    The grid is a YAML file of lists, such as

      partitioning.partitions: [2, 4, 8]
      demonstrations: [1, 3]
      seed: [0, 1, 2]

    and all other settings are those of a run. One that is known to change nothing in some combination, such as a number
    of partitions where the method makes its own, is an error. The runs are in RUNS/NAME, what they print in
    RUNS/NAME/logs. They share their embeddings and one cache of generated texts, so that what several need is made
    once. The same command again goes on where it was stopped, and a grid with further values trains these alone. In the
    end, RUNS/NAME/comparison has their table and figure, as `evaluate.py compare` makes them: runs that differ in seed
    alone are pooled.

    examples:
      python train.py sweep --grid grid.yaml --config configs/quickstart.yaml --name sizes --plan
          only says what it would do
      python train.py sweep --grid grid.yaml --config configs/quickstart.yaml --name sizes --jobs 2
    """

    grid: str
    """YAML file with the values of each setting."""


@dataclass(frozen=True, kw_only=True)
class TuneSettings(SeveralRuns):
    """Search for the settings with the best development score, by Optuna's TPE (extra: tune).

    The space is a YAML file of ranges and of lists of choices, such as

      agent_s.learning_rate: {low: 0.0003, high: 0.03, log: true}
      agent_r.hidden: {low: 8, high: 64}
      training.center: [true, false]

    and all other settings are those of a run. Trial 0 has the unchanged settings, trials 1 to 9 are drawn at random,
    the later ones where earlier ones scored well; `seed` is that of the search. Each trial is a training for each of
    --seeds, without the final evaluation: no test query is answered. Its score is the mean of their best rounds' scores
    on the development queries.

    In the end, the best trial and trial 0 are trained with as many seeds that the search has not seen (at least three)
    and compared on these, since the best of many trials also had luck. The development queries are the same, so some
    luck remains; answers to test queries, of runs with and without best.yaml, have none of it.

    The runs are in RUNS/NAME, and share their embeddings and one cache of generated texts. results.json, results.md, a
    plot and best.yaml, the best trial's settings, are there, too. The same command again goes on where it was stopped,
    and with a larger number of trials it adds to them.

    examples:
      python train.py tune --space space.yaml --config configs/quickstart.yaml --name tuned --plan
          only says what it would do
      python train.py tune --space space.yaml --config configs/quickstart.yaml --name tuned --trials 30 --jobs 2
      python train.py --config configs/quickstart.yaml --config runs/tuned/best.yaml --name best
    """

    space: str
    """YAML file with the range or the choices of each setting."""
    trials: int = bounded(20, minimum=2, maximum=100_000)
    """Number of trials, with trial 0."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of each trial's trainings, which are those that run at a time (--jobs): trials follow each other."""


@dataclass(frozen=True)
class PoolSettings:
    """Score the answers of several finished runs together, such as runs of one configuration with several seeds.

    The runs' settings must agree except for name, seed and data.world_seed. The intervals count worlds, runs and test
    pairs (with data.group, groups of pairs) together, so give each run a world of its own (--data.world_seed), best
    five or more: with two or three worlds the intervals are honest but wide.

    examples:
      for s in 0 1 2; do
        python train.py --config configs/rivals.yaml --name s$s --seed $s --data.world_seed $s
      done
      python evaluate.py pool --runs runs/s0 runs/s1 runs/s2 --output runs/seeds
      python evaluate.py pool --runs runs/s0 --output runs/named --contrasts "selfmem - naive" "self_rag - naive"
          tests these differences, by Holm's method for their number, in place of those of the configuration
    """

    runs: tuple[str, ...]
    """Finished runs of one task."""
    output: str
    """Folder to write to."""
    contrasts: tuple[str, ...] | None = None
    """Differences of two systems to test; null is the evaluation.contrasts of the runs."""
    bootstrap: int | None = bounded(None, minimum=1, maximum=1_000_000)
    """Resamples; null is the evaluation.bootstrap of the runs."""


@dataclass(frozen=True)
class CompareSettings:
    """Compare finished runs of different settings: a row for each combination of settings, with its seeds pooled.

    Runs that differ in name, seed and data.world_seed alone are one row. Rows with the seeds and test pairs of the
    first one are paired with it: their differences have intervals, p-values and Holm's correction. The others are
    marked. Writes comparison.md, .csv, .tex and .json, comparison_plot.png, .svg and .csv, and report.html.

    examples:
      python evaluate.py compare --runs runs/sizes --output runs/sizes/comparison
          all runs in a folder, such as that of `train.py sweep`
      python evaluate.py compare --runs runs/a0 runs/a1 runs/b0 runs/b1 --output ab --systems m_rag classifier
    """

    runs: tuple[str, ...]
    """Finished runs, or folders of runs. The first one's settings are the first row."""
    output: str
    """Folder to write to."""
    systems: tuple[str, ...] | None = None
    """Systems to show; the first one's differences are tested. null is m_rag and naive."""
    metric: str | None = None
    """Metric to compare in; null is the target metric of the runs."""


@dataclass(frozen=True)
class PaperSettings(OnCluster):
    """Make tables of M-RAG's evaluation (Section 4): train all their runs, and print our figures beside the paper's.

    table1 to table6 and figure2 are files of configs/paper/tables, and all of them are made unless some are named. The
    runs are those of `train.py sweep`, in RUNS/paper-SCALE, and the same command again goes on where it was stopped.
    Writes table.md and table.json for each, and each part's comparison with its figure. The page lists, part by part,
    which of its rules are not the paper's, and says whether its intervals are over worlds or over seeds.

    examples:
      python evaluate.py paper table4 --jobs 2
      python evaluate.py paper --plan
          all tables, and how many runs they have; trains nothing
      python evaluate.py paper table2 table4 figure2 --scale real
          needs the extra llm, and es-en.jsonl and de-en.jsonl in the working directory; table1 reads dialogsum.jsonl,
          table3 dailydialog.jsonl (configs/real/ says what they are), and tables 5 and 6 have no such scale
    """

    tables: tuple[str, ...] | None = None
    """Names of tables, or paths of files like them; null is all in configs/paper/tables that have the scale."""
    scale: PaperScale = "small"
    """small is the bundled worlds; real is text that people wrote, with Gemma 3 270M; full is the paper's models and
    data."""
    jobs: int = bounded(1, minimum=1, maximum=10_000)
    """Runs at a time."""
    runs: str = "runs"
    """Folder that holds the folder paper-SCALE."""
    plan: bool = False
    """Print what would be run and stop."""


@dataclass(frozen=True)
class AskSettings:
    """Answer one text with a run's trained agents, and show how: the selected partition, the memories, the per-head
    similarities and the hypothesis. (With --documents in place of --run: answer a question from documents; its options
    follow below.)

    A filter is JSON on the memories' metadata and "labels", such as
    {"source": {"$in": ["Wired"]}, "published_at": {"$gte": "2023-10-04"}}. It is never dropped: if nothing passes it,
    nothing is read.

    examples:
      python evaluate.py ask --run runs/quickstart --text "The harbour council met on Monday ..."
      python evaluate.py ask --run runs/quickstart --text "..." --allowed court farm
          reads no partition but these two
      python evaluate.py ask --run runs/quickstart --text "..." --filter '{"labels": {"$in": ["court"]}}'
          chooses among the partitions that hold a memory with this label, and reads no other memory
      python evaluate.py ask --run runs/arms --text "..." --allowed court "no memory"
          a run with partitioning.arms: the memories of court, or the language model alone
      python evaluate.py ask --run runs/quickstart --text "..." --json | jq .hypothesis
    """

    run: str
    """Run folder that train.py made."""
    text: str
    """The text to answer."""
    allowed: tuple[str, ...] | None = None
    """Partitions that may be read; null for all. The arms of a run are partitions, too, called "whole database" (which
    may read every memory) and "no memory" (with a filter it must be named here)."""
    filter: str | None = None
    """A filter (JSON) on the memories; null for none."""
    json: bool = False
    """Print JSON."""
    trust: tuple[str, ...] = ()
    """Import paths of code that the run's settings name, and that may therefore run (docs/plugins.md)."""


def check_data_files(data: DataConfig) -> None:
    """Refuse a new run whose files do not exist, before anything is written."""
    for path in (data.pairs, *dataclasses.asdict(data.files).values()):
        if path and not Path(path).exists():
            raise InputError(
                f"{path}: no such file; check data.pairs or data.files (relative to the working directory)"
            )
    if data.folder is not None and not Path(data.folder).exists():
        raise InputError(f"{data.folder}: no such folder; check data.folder (relative to the working directory)")
