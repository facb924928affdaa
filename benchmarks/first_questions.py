"""What a newcomer asks of the bundled news: is it answered, and how soon?

    python -m benchmarks.first_questions [--llm bundled]

Thirteen kinds of questions, in words that the bundled model's training does not have, each to a process of its own:
`evaluate.py ask --index DIR --text ...`. Printed are the answer, whether it is right, and the seconds from the command
to its end; then the seconds of each question where one process is asked all thirteen, without the start.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from mrag_rl.data.synthetic.news_questions import NO_ANSWER
from mrag_rl.metrics.answers import answer_scores

ROOT = Path(__file__).parents[1]


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
    Asked("a fact, no source", "Where did Yarbury Animation shoot its film?", "Corvin"),
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


def ask(index: Path, llm: str, texts: list[str]) -> list[dict[str, object]]:
    """What `evaluate.py ask` answers to questions on its standard input."""
    command = [sys.executable, "evaluate.py", "ask", "--index", str(index), "--llm", llm, "--json"]
    done = subprocess.run(command, cwd=ROOT, input="\n".join(texts), text=True, capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """The whole measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm", default="bundled", help="name or folder of a model (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        build = ["evaluate.py", "ask", "--documents", "bundled", "--index", str(index), "--llm", "none", "--text", "?"]
        subprocess.run([sys.executable, *build], cwd=ROOT, capture_output=True, check=True)
        print("| kind | answer | right | seconds |\n|---|---|---|---:|")
        right, slowest = 0, 0.0
        for asked in tqdm(QUESTIONS, unit="question"):
            started = time.perf_counter()
            (found,) = ask(index, arguments.llm, [asked.text])
            seconds = time.perf_counter() - started
            answer = str(found["hypothesis"])
            is_right = bool(answer_scores([answer], [asked.answer])["exact_match"][0])
            right, slowest = right + is_right, max(slowest, seconds)
            print(f"| {asked.kind} | {answer} | {'yes' if is_right else f'no: {asked.answer}'} | {seconds:.1f} |")
        started = time.perf_counter()
        ask(index, arguments.llm, [asked.text for asked in QUESTIONS])
        together = time.perf_counter() - started
        started = time.perf_counter()
        ask(index, arguments.llm, [QUESTIONS[0].text])
        one = time.perf_counter() - started
    print(f"\n{right} of {len(QUESTIONS)} right; a process each: {slowest:.1f} s at most; one process: ", end="")
    print(f"{together:.1f} s for all, {(together - one) / (len(QUESTIONS) - 1):.2f} s for each after the first")


if __name__ == "__main__":
    main()
