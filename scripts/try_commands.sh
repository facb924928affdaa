#!/usr/bin/env bash
# Runs every command of README.md and docs/ as it stands there, but for placeholders such as pairs.jsonl.
#   git clone ... fresh && cd fresh && scripts/try_commands.sh DATA
# DATA: a folder with jrc_acquis/de-en.jsonl, wikipedia/ (documents.jsonl, queries.jsonl), and
#       multihop_filters/ (queries.jsonl, fields.json), in the formats of docs/formats.md.
# tried/summary says how each command ended and how long it took, tried/NAME.log what it printed. A command that ended
# well is not run again, so that the script can be stopped and started at any time; all of it takes some four hours on
# two cores. Left out: make check, the runs of five worlds in docs/results.md, most tables of the paper, the search of train.py
# tune, and whatever needs a model hub or a GPU.
set -u
cd "$(dirname "$0")/.."
data=$(realpath "$1")
mkdir -p tried

run() { # NAME COMMAND
  local start=$SECONDS status
  grep -q "^$1: 0 " tried/summary 2>/dev/null && return
  rm -rf "runs/$1" # What a command that was stopped left; some are named like their run
  sed -i "/^$1: /d" tried/summary 2>/dev/null
  bash -c "$2" > "tried/$1.log" 2>&1
  status=$?
  echo "$1: $status after $((SECONDS - start)) s: $2" | tee -a tried/summary
}

run quickstart "make quickstart"
source .venv/bin/activate
pip install -q -c constraints.txt -e '.[tune,ui]'
ostra="In Ostra, the insurance group closed the new theatre on Saturday. Tilda Pohl, who lives nearby, called it good \
news. Brokers shouted prices on the trading floor. It happened because of rising costs."

# README.md, docs/filters.md, docs/tutorials/train.md, docs/tutorials/export.md
run ask-run "python evaluate.py ask --run runs/quickstart --text '$ostra'"
run ask-run-allowed "python evaluate.py ask --run runs/quickstart --text '$ostra' --allowed court farm"
run ask-run-filter "python evaluate.py ask --run runs/quickstart --text '$ostra' --filter '{\"labels\": {\"\$in\": [\"court\"]}}'"
run ui "timeout --preserve-status -s INT 60 python evaluate.py ui runs/quickstart --port 0"
run two_rounds "python train.py --config configs/quickstart.yaml --name two_rounds --seed 1 --training.rounds 2"
run two_rounds-resume "python train.py --resume runs/two_rounds"
run systems "python evaluate.py systems --run runs/quickstart"
run mrag-rl-help "mrag-rl --help"
run mrag-rl-ask "mrag-rl ask --run runs/quickstart --text '$ostra'"
run export "python evaluate.py export runs/quickstart --output desks"
run select "python -m examples.select_partition --run runs/quickstart"
run retrieval "python evaluate.py retrieval --output out.json --plots plots"
run retrieval-files "python evaluate.py retrieval --documents $data/wikipedia/documents.jsonl --queries $data/wikipedia/queries.jsonl --output out.json"
run retrieval-llm "python evaluate.py retrieval --output out.json --strategies standard --fetch 5 --llm bundled"
run multi-aspect-help "python scripts/make_multi_aspect.py --help"
run lm "python -m lm.train --pairs $data/jrc_acquis/de-en.jsonl --task translation --output my-llm --steps 300 --batch 8"
run filters "python evaluate.py filters --queries $data/multihop_filters/queries.jsonl --fields $data/multihop_filters/fields.json --output filters.json"
run multihop "python evaluate.py multihop --config configs/multihop.yaml"
run multihop-llm "python evaluate.py multihop --config configs/multihop.yaml --llm bundled"

# docs/tutorials/search.md, docs/tutorials/questions.md, docs/fusion.md: they write these files themselves
python - <<'P'
import re
from pathlib import Path

for page in ("search", "questions"):
    for name, text in re.findall(r"cat > (\S+) <<'END'\n(.*?)END\n", Path(f"docs/tutorials/{page}.md").read_text(), re.S):
        Path(name).write_text(text)
P
run search "python evaluate.py retrieval --documents documents.jsonl --queries queries.jsonl --output retrieval.json --strategies standard mrag hybrid --fetch 3"
run ask-bundled "python evaluate.py ask --documents bundled --text 'What did The Ostra Courier, in an article published before 2024-04-11, give as the lender behind Sorrridge Timber?'"
run ask-index "python evaluate.py ask --documents bundled --index news.index --text 'What did The Ostra Courier, in an article published before 2024-04-11, give as the lender behind Sorrridge Timber?'"
run ask-date "python evaluate.py ask --documents documents.jsonl --llm none --text 'What did Wired report before November 1st, 2023?'"
run ask-filter "python evaluate.py ask --documents documents.jsonl --llm none --passages 2 --text 'What did Wired write about buildings?' --query 'a damaged bridge' --filter '{\"source\": \"Wired\", \"published_at\": {\"\$gte\": \"2024-01-01\"}}'"
run ask-no-filter "python evaluate.py ask --documents documents.jsonl --llm none --no-filter --text 'What did Wired write about buildings?'"
run ask-llm "python evaluate.py ask --documents documents.jsonl --text 'What did Wired write about buildings?' --llm mrag_rl/data/question_llm --queries 6 --strategy mrag"
run ask-queries "python evaluate.py ask --documents documents.jsonl --text 'buildings' --query 'one of your own' --query another"
run ask-no-queries "python evaluate.py ask --documents documents.jsonl --text 'buildings' --queries 0 --filter '{\"source\": {\"\$in\": [\"Wired\"]}}'"
run filters-questions "python evaluate.py filters --queries questions.jsonl --documents documents.jsonl --output filters.json"
run multi-aspect-search "python -m examples.multi_aspect_search"
run read-a-question "python -m examples.read_a_question"

# docs/tutorials/train.md, docs/tutorials/ablate.md, docs/tutorials/own_pairs.md
printf 'demonstrations: [1, 2, 3]\nseed: [0, 1]\n' > grid.yaml
printf 'agent_s.learning_rate: {low: 0.0003, high: 0.03, log: true}\nagent_r.gamma: [0.9, 1.0]\n' > space.yaml
run first "python train.py --config configs/quickstart.yaml --name first --data.sizes '{database: 200, train: 100, dev: 40, test: 40}' --evaluation.systems '[none, naive, nearest_partition_refined, classifier_refined, m_rag]'"
run resume "python train.py --resume runs/first"
run single "python train.py --config runs/first/config.yaml --name single --state single"
run fixed "python train.py --config runs/first/config.yaml --name fixed --reward fixed_baseline"
run sweep-plan "python train.py sweep --grid grid.yaml --config runs/first/config.yaml --name shown --plan"
run sweep "python train.py sweep --grid grid.yaml --config runs/first/config.yaml --name shown --jobs 2"
run compare "python evaluate.py compare --runs runs/first runs/single runs/fixed --output runs/choices"
run tune-plan "python train.py tune --space space.yaml --config configs/quickstart.yaml --name tuned --trials 30 --plan"
run second "python train.py --config runs/first/config.yaml --name second --seed 1 --data.world_seed 1"
run pool "python evaluate.py pool --runs runs/first runs/second --output runs/two"
run mine "python train.py --config configs/pairs.yaml --data.pairs $data/jrc_acquis/de-en.jsonl --task translation --name mine --training.rounds 1 --data.fractions '{train: 0.15, dev: 0.1, test: 0.1}'"
run desks1 "python train.py --config configs/rivals.yaml --name desks1 --seed 1 --data.world_seed 1"
run desks1-systems "python evaluate.py systems --run runs/desks1 --output ablations --systems naive_refined classifier_refined m_rag m_rag_random_r"

# docs/paper_index.md, docs/results.md, docs/retrieval.md, docs/design.md
for method in lsh kmeans hnsw_spectral; do
  run "$method" "python train.py --config configs/quickstart.yaml --name $method --partitioning.method $method"
done
F="--config configs/quickstart.yaml"
# One table is enough here: all of them are 249 runs.
run paper-plan "python evaluate.py paper --plan"
run paper-table4 "python evaluate.py paper table4 --jobs 2"
run paper "python train.py $F --config configs/paper/summarization.yaml --name paper --partitioning.method category"
run fixed_baseline "python train.py --config configs/rivals.yaml --config configs/few_systems.yaml --name fixed_baseline --reward fixed_baseline"
for benchmark in start fallback; do
  run "$benchmark" "python -m benchmarks.$benchmark --runs runs/desks1"
done
run kept-gains "python -m benchmarks.kept_gains --run runs/desks1"
run transfer "python -m benchmarks.transfer --run runs/quickstart --others runs/desks1"
run joint-training "python -m benchmarks.joint_training --batches 4 --repeats 1"
run interval-coverage "python -m benchmarks.interval_coverage"
run head-extraction "python -m benchmarks.head_extraction"
run multi-head-search "python -m benchmarks.multi_head_search"
run retrieval-512 "python evaluate.py retrieval --documents $data/wikipedia/documents.jsonl --queries $data/wikipedia/queries.jsonl --max-length 512 --output out.json --plots plots"
run hybrid-ablations "python -m benchmarks.hybrid_ablations --documents $data/wikipedia/documents.jsonl --queries $data/wikipedia/queries.jsonl --max-length 512"
run retrieval-ablations "python -m benchmarks.retrieval_ablations --documents $data/wikipedia/documents.jsonl --queries $data/wikipedia/queries.jsonl --max-length 512"

! grep -v ": 0 after" tried/summary
