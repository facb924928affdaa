#!/usr/bin/env bash
# The measurements of docs/real_text.md on one corpus: the gate, the score table, the trainings.
#   scripts/real_text.sh NAME PAIRS.jsonl OUTPUT [OPTION...]
# NAME: a file of configs/real/, without its ending. OPTION: further settings for every command, such as
#       --llm.device cuda --llm.dtype bfloat16. TABLE_SEEDS (20) and JOINT_SEEDS (3) say how many seeds there are.
# Every step that is complete is left out, and one that was stopped resumes, so that the script can be stopped and
# started at any time. OUTPUT has gate/, table/ and the runs of its seeds, clean/ and spoilt/ likewise, and a folder
# `pooled` in each. All texts are in OUTPUT/texts.sqlite.
set -eu
[ $# -ge 3 ] || { echo "usage: scripts/real_text.sh NAME PAIRS.jsonl OUTPUT [OPTION...]" >&2; exit 2; }
name=$1 pairs=$(realpath "$2") output=$(realpath -m "$3")
cd "$(dirname "$0")/.."
shift 3
mkdir -p "$output"
settings=(--config "configs/real/$name.yaml")
common=(--data.pairs "$pairs" --llm.cache_file "$output/texts.sqlite" "$@")

train() { # FOLDER SEED OPTION...: a run, from where it was left
  local runs=$output/$1 run=$output/$1/s$2
  local seed=$2
  shift 2
  if [ -f "$run/config.yaml" ]; then
    python train.py --resume "$run"
  else
    python train.py "${settings[@]}" "$@" "${common[@]}" --runs "$runs" --name "s$seed" --seed "$seed"
  fi
}

pool() { # FOLDER SEEDS
  local runs=()
  for seed in $(seq 0 $(($2 - 1))); do runs+=("$output/$1/s$seed"); done
  [ -d "$output/$1/pooled" ] || [ "$2" -lt 2 ] || python evaluate.py pool --runs "${runs[@]}" --output "$output/$1/pooled"
}

[ -f "$output/gate/gate.json" ] || python evaluate.py gate "${settings[@]}" "${common[@]}" --output "$output/gate"

for seed in $(seq 0 $((${TABLE_SEEDS:-20} - 1))); do
  train table "$seed" --config configs/score_table.yaml
  # Contrast (a) is against the best of these by the development queries.
  [ -d "$output/table/s$seed/evaluation_dev" ] || python evaluate.py systems --run "$output/table/s$seed" --queries dev \
    --systems nearest_partition classifier supervised_copies supervised_trials
done
pool table "${TABLE_SEEDS:-20}"
# Placebos draw texts or groups of their own: once is enough.
[ -d "$output/table/placebos" ] || python evaluate.py systems --run "$output/table/s0" --output "$output/table/placebos" \
  --systems oracle_partition oracle_samples oracle_random

for database in clean spoilt; do
  share=0
  [ "$database" = clean ] || share=0.3
  for seed in $(seq 0 $((${JOINT_SEEDS:-3} - 1))); do
    train "$database" "$seed" --data.spoilt "$share" --partitioning.seed 0
  done
  pool "$database" "${JOINT_SEEDS:-3}"
done
