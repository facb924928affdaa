"""Does the bundled language model answer questions about the news better than simple rivals?

    python -m benchmarks.news_answers [--worlds 0 1 2 3 4] [--llm bundled another_model]

On the split `test` of several worlds, `MultiMetaRAG` answers by hybrid search under the rules' filter, writing again up
to four times what no passage states, as `ask` does. Rivals: one answers every question with "Yes"; one says Yes if the
passages that the model is shown have all numbers and capitalized words of the question, else No; one is a classifier of
questions, trained on the split `llm`. Exact match by type of question, with 95% intervals that draw worlds and
questions, and paired differences from the rivals.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tqdm import tqdm

from mrag_rl.data.records import Document, Query
from mrag_rl.data.synthetic import make_news
from mrag_rl.data.synthetic.news_questions import NO_ANSWER
from mrag_rl.encoders import TransformerEncoder
from mrag_rl.evaluation.bootstrap import Origin, Resamples, Score, hierarchical_resamples
from mrag_rl.filters import FieldVocabulary, RuleExtractor
from mrag_rl.generation.llm import LLM
from mrag_rl.generation.question_llm import load_question_llm
from mrag_rl.metrics.answers import answer_scores
from mrag_rl.systems import MultiMetaRAG
from mrag_rl.systems.evidence import seen
from mrag_rl.systems.passages import PASSAGES, PassageReader, PassageRetriever

RIVALS = ('always "Yes"', "words", "classifier")
RESAMPLES = 4_000
RETRIES = 4
_TELLING_WORD = re.compile(r"\b(?:[A-Z]\w+|\d+)\b")


def answers_of(
    world: int, encoder: TransformerEncoder, llms: Mapping[str, LLM]
) -> tuple[list[Query], dict[str, list[str]]]:
    """The questions of a world, and every system's answers to them."""
    documents, queries = make_news(world, split="test")
    rules = RuleExtractor(FieldVocabulary.from_documents(documents))
    retriever = PassageRetriever.build(documents, encoder, extractor=rules, strategy="hybrid")
    texts = [query.text for query in queries]
    found = MultiMetaRAG(retriever).answer(texts)
    answers = {
        name: [answer.hypothesis for answer in PassageReader(llm, retries=RETRIES).answer(texts, found)]
        for name, llm in llms.items()
    }
    by_words = [answers_by_words(text, answer.passages[:PASSAGES]) for text, answer in zip(texts, found, strict=True)]
    rivals = (["Yes"] * len(texts), by_words, classified(world, texts))
    return queries, answers | dict(zip(RIVALS, rivals, strict=True))


def answers_by_words(question: str, passages: Sequence[Document]) -> str:
    """Yes if the passages, with what stands above them, have all numbers and capitalized words of a question."""
    words = {word for passage in passages for word in seen(passage, ("source", "published_at")).split()}
    telling = _TELLING_WORD.findall(question)[1:]  # without the first word, which is capitalized anyway
    return "Yes" if all(word.lower() in words for word in telling) else "No"


def classified(world: int, texts: Sequence[str]) -> list[str]:
    """What a classifier of questions by their words and pairs of words answers: Yes, No, or that nothing is found."""
    _, training = make_news(world, split="llm", queries=4_000)
    classifier = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=1_000))
    kinds = {"Yes", "No", NO_ANSWER}
    kept = [query for query in training if query.metadata["answer"] in kinds]
    classifier.fit([query.text for query in kept], [query.metadata["answer"] for query in kept])
    return [str(answer) for answer in classifier.predict(texts)]


def score(right: np.ndarray, resamples: Resamples) -> Score:
    """The share of right answers, in percent, and its draws. right: (N,) bool."""
    values = 100.0 * right
    draws = resamples.counts @ values / resamples.counts.sum(axis=1)
    units = resamples.units @ values / resamples.units.sum(axis=1)
    return Score(float(values.mean()), resamples.widened(draws, units))


def table(kinds: Sequence[str], origins: Sequence[Origin], right: Mapping[str, np.ndarray]) -> list[str]:
    """A row for each kind of question and system. kinds: of the N questions. right: (N,) bool by system."""
    lines = [
        f"| questions | number | system | exact match | {' | '.join(f'less {rival}' for rival in RIVALS)} |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for kind in ("overall", *dict.fromkeys(kinds)):
        rows = [i for i, other in enumerate(kinds) if kind in ("overall", other)]
        resamples = hierarchical_resamples([origins[i] for i in rows], resamples=RESAMPLES, seed=0)
        scores = {name: score(of_system[rows], resamples) for name, of_system in right.items()}
        for name, own in scores.items():
            gains = [own.minus(scores[other]) if other != name else None for other in RIVALS]
            shown = ["" if g is None else f"{g.value:+.1f} [{g.low:+.1f}, {g.high:+.1f}]" for g in gains]
            interval = own.interval()
            value = f"{interval.value:.1f} [{interval.low:.1f}, {interval.high:.1f}]"
            lines.append(f"| {kind} | {len(rows)} | {name} | {value} | {' | '.join(shown)} |")
    return lines


def kind_of(query: Query) -> str:
    """The type of a question; comparisons and temporal questions that ask for yes or no are told from others."""
    kind = str(query.metadata["question_type"])
    if kind not in ("comparison", "temporal"):
        return kind
    return f"{kind}, {'yes or no' if query.metadata['answer'] in ('Yes', 'No') else 'a fact'}"


def main() -> None:
    """The whole measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--worlds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="seeds of the news (%(default)s)"
    )
    parser.add_argument("--llm", nargs="*", default=["bundled"], help="names or folders of models (%(default)s)")
    arguments = parser.parse_args()
    encoder = TransformerEncoder.load("all-MiniLM-L6-v2")
    llms = {name: llm for name in arguments.llm if (llm := load_question_llm(name)) is not None}
    kinds: list[str] = []
    origins: list[Origin] = []
    right: dict[str, list[float]] = {}
    for world in tqdm(arguments.worlds, unit="world"):
        queries, answers = answers_of(world, encoder, llms)
        references = [str(query.metadata["answer"]) for query in queries]
        for name, hypotheses in answers.items():
            right.setdefault(name, []).extend(answer_scores(hypotheses, references)["exact_match"].tolist())
        kinds += map(kind_of, queries)
        origins += [Origin(world, world, query.id) for query in queries]
    judged = {name: np.array(of_system) > 0 for name, of_system in right.items()}
    print("\n".join(table(kinds, origins, judged)))


if __name__ == "__main__":
    main()
