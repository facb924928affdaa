"""What a newcomer asks of the bundled news: is it answered, and how soon?

    python -m benchmarks.first_questions [--llm bundled] [--split test]

Thirteen kinds of questions, each to a process of its own: `evaluate.py ask --index DIR`. Printed are the answer,
whether it is right, and the seconds from the command to its end. Then all questions of a split of `newcomers.jsonl`
to one process: exact match by kind with 95% intervals that draw questions, the share that is answered with
"Insufficient information.", and the seconds for each. The file's 240 questions were written from the articles alone,
of the news `make_news(1, split="dev")` and of the bundled news (`test`), by language models that had not seen the
forms of question that the bundled model is trained on; it was trained again after those of `dev` had been read.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from mrag_rl.data.synthetic import make_news
from mrag_rl.data.synthetic.news_questions import NO_ANSWER
from mrag_rl.evaluation.bootstrap import Score, resample_counts
from mrag_rl.io import read_jsonl, write_jsonl
from mrag_rl.metrics.answers import answer_scores

ROOT = Path(__file__).parents[1]
RESAMPLES = 10_000
WORLDS = {"dev": 1, "test": 0}


@dataclass(frozen=True)
class Asked:
    """A question of a kind, and its answer."""

    kind: str
    text: str
    answer: str


QUESTIONS = (
    Asked(
        "a fact by its source",
        "What fee does Rindack Rovers pay for its striker, says Morrow News?",
        "150 thousand crowns",
    ),
    Asked("a fact, no source", "Who plays the lead in the film by Yarbury Animation?", "Ines Graf"),
    Asked(
        "a fact in a period",
        "Where are the drops of Mardfield Infirmary made, according to Orbit And Field before March 19, 2024?",
        "Kellin",
    ),
    Asked("all in lower case", "where does nevack polar station keep its ice, says kestrel wire?", "Fallow"),
    Asked(
        "who, by one claim",
        "Which club's striker wears the number 17 shirt according to Northbound Weekly?",
        "Sorreth Rovers",
    ),
    Asked(
        "who, by two claims",
        "Which studio spent 45 million crowns on its film according to StageDoor and gave Lukas Vogel "
        "the lead according to Beacon & Post?",
        "Sorrack Films",
    ),
    Asked(
        "who, one source excluded",
        "Which club has lost Simon Vogel to injury, according to anyone but Northbound Weekly?",
        "Sorreth Rovers",
    ),
    Asked("do they agree", "Do The Tarnow Times and Fourth Bell agree on how many jobs Lumolm Mills cuts?", "Yes"),
    Asked(
        "do they disagree",
        "Do Signal Nine and Selby Live both say that Wennney Academy keeps its ice in Tarnow?",
        "No",
    ),
    Asked(
        "which came first",
        "Did Orbit And Field report that Mardolm Institute brought home 339 cores before Selby Live "
        "reported that it keeps its ice in Ostra?",
        "Yes",
    ),
    Asked(
        "did it change",
        "Did CopperWire on July 25, 2024 and Kestrel Wire on August 31, 2024 give the same share of "
        "owners behind the plan of Rinddale Freight?",
        "No",
    ),
    Asked("nobody reported it", "How many patients did Quarfield Films treat, according to Fourth Bell?", NO_ANSWER),
    Asked("nothing to do with it", "What is the capital of France?", NO_ANSWER),
)


def build(index: Path, split: str) -> None:
    """The index of a split's articles."""
    documents = index.with_suffix(".jsonl")
    write_jsonl(documents, [asdict(document) for document in make_news(WORLDS[split], split=split)[0]])
    arguments = ["--documents", str(documents), "--index", str(index), "--llm", "none", "--text", "?"]
    subprocess.run([sys.executable, "evaluate.py", "ask", *arguments], cwd=ROOT, capture_output=True, check=True)


def ask(index: Path, llm: str, texts: Sequence[str]) -> list[str]:
    """What `evaluate.py ask` answers to questions on its standard input."""
    command = [sys.executable, "evaluate.py", "ask", "--index", str(index), "--llm", llm, "--json"]
    done = subprocess.run(command, cwd=ROOT, input="\n".join(texts), text=True, capture_output=True, check=True)
    return [json.loads(line)["hypothesis"] for line in done.stdout.splitlines()]


def right(answers: Sequence[str], questions: Sequence[Asked]) -> np.ndarray:
    """(N,) whether each answer is the question's."""
    return answer_scores(answers, [asked.answer for asked in questions])["exact_match"] > 0


def one_by_one(index: Path, llm: str) -> None:
    """Each of the thirteen to a process of its own."""
    print("| kind | answer | right | seconds |\n|---|---|---|---:|")
    count, slowest = 0, 0.0
    for asked in tqdm(QUESTIONS, unit="question"):
        started = time.perf_counter()
        answers = ask(index, llm, [asked.text])
        seconds = time.perf_counter() - started
        (is_right,) = right(answers, [asked])
        count, slowest = count + is_right, max(slowest, seconds)
        verdict = "yes" if is_right else f"no: {asked.answer}"
        print(f"| {asked.kind} | {answers[0]} | {verdict} | {seconds:.1f} |")
    print(f"\n{count} of {len(QUESTIONS)} right; {slowest:.1f} s at most, the start included\n")


def together(index: Path, llm: str, questions: Sequence[Asked]) -> None:
    """All of a split's questions to one process."""
    started = time.perf_counter()
    answers = ask(index, llm, [asked.text for asked in questions])
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    ask(index, llm, [questions[0].text])
    first = time.perf_counter() - started
    is_right = right(answers, questions)
    refused = answer_scores(answers, [NO_ANSWER] * len(answers))["exact_match"]
    print('| kind | questions | exact match | answered with "Insufficient information." |\n|---|---:|---:|---:|')
    for kind in ("all", *dict.fromkeys(asked.kind for asked in questions)):
        rows = np.array([kind in ("all", asked.kind) for asked in questions])
        own = 100.0 * is_right[rows]
        draws = resample_counts(len(own), resamples=RESAMPLES, seed=0) @ own / len(own)
        match = Score(own.mean(), draws).interval()
        share = 100 * refused[rows].mean()
        print(f"| {kind} | {len(own)} | {match.value:.1f} [{match.low:.1f}, {match.high:.1f}] | {share:.1f} |")
    each = (seconds - first) / (len(questions) - 1)
    print(f"\n{each:.2f} s a question after the first, whose process took {first:.1f} s")


def main() -> None:
    """The whole measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm", default="bundled", help="name or folder of a model (%(default)s)")
    parser.add_argument("--split", choices=WORLDS, default="test", help="of the questions in one process (%(default)s)")
    arguments = parser.parse_args()
    rows = [row for _, row in read_jsonl(Path(__file__).with_name("newcomers.jsonl"))]
    questions = [Asked(r["kind"], r["question"], r["answer"]) for r in rows if r["split"] == arguments.split]
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / arguments.split
        build(index, arguments.split)
        if arguments.split == "test":
            one_by_one(index, arguments.llm)
        together(index, arguments.llm, questions)


if __name__ == "__main__":
    main()
