#!/usr/bin/env bash
# What each objective brings a small model: short pretrainings with one change each, several seeds, measured the same way.
#
#   runs/levers_cpu.sh                                  # six levers, three seeds, about a minute for 1 M tokens of one core
#   LEVERS="bag both" SEEDS="0 1" runs/levers_cpu.sh
#   TOKENS=50000 SEEDS=0 OUT=build/try runs/levers_cpu.sh        # a rehearsal
#   LEVERS="old new" TOKENS=9000000 OUT=build/levers30 runs/levers_cpu.sh   # whole recipes: 0.1.0's, and today's `small`
#
# SHARDS holds wiki and novels as runs/reproduce_cpu.sh prepares them. Each run is pretrained, probed and fine-tuned on 4,000
# examples of SST-2; `litebert runs OUT` and the lines that are printed at the end have the figures. Finished runs are kept.
set -euo pipefail
cd "$(dirname "$0")/.."

SHARDS="${SHARDS:-build/evidence-shards}"
OUT="${OUT:-build/levers}"
GLUE="${LITEBERT_SHARED:-../shared}/data/glue"
PRECISION="${PRECISION:-bfloat16}" # float32 where the processor has no bfloat16
litebert="${LITEBERT:-.venv/bin/litebert}"
python="${PYTHON:-.venv/bin/python}"
export OMP_NUM_THREADS=1

two_layers="--model.num-layers 2 --curriculum.layers 0 2 --curriculum.batch-size 0 8 0.3 16"
flags() { # of a lever, after those of the recipe `bundled` cut to two layers
  case $1 in
    none) echo "$two_layers --objective.bag-weight 0" ;;
    bag) echo "$two_layers --objective.bag-weight 1" ;;
    heads) echo "$two_layers --objective.bag-weight 1 --model.num-heads 6 --initial.neighbour-heads 4" ;;
    both) echo "$two_layers --objective.bag-weight 1 --examples.task both" ;;
    pairs) echo "$two_layers --objective.bag-weight 1 --objective.pairs-every-steps 1 --objective.pairs-batch-size 16" ;;
    short) echo "$two_layers --objective.bag-weight 1 --examples.short-probability 0.5" ;;
    old) echo "--objective.bag-weight 0 --initial.words random" ;;
    new) echo "--objective.bag-weight 1 --model.num-heads 6 --initial.neighbour-heads 4" ;;
    *) echo "unknown lever: $1" >&2 && exit 2 ;;
  esac
}

for seed in ${SEEDS:-0 1 2}; do
  for lever in ${LEVERS:-none bag heads both pairs short}; do
    run="$OUT/$lever-$seed"
    # shellcheck disable=SC2046  # flags with values
    [ -d "$run/model" ] || "$litebert" pretrain --config bundled --data "$SHARDS/wiki" --extra-data "$SHARDS/novels" --out "$run" \
      --tokens "${TOKENS:-3000000}" --seed "$seed" --resume auto --threads 1 --precision "$PRECISION" --curriculum.length 0 128 \
      --evaluation.every-steps 0 --evaluation.final-examples 4096 $(flags "$lever")
    [ -f "$run/probe.json" ] || "$litebert" probe --model "$run/model" --task sst2 --data "$GLUE" --max-train 9000 --threads 1 \
      --json > "$run/probe.json"
    [ -d "$run-sst2/model" ] || "$litebert" finetune sst2 --model "$run/model" --data "$GLUE" --out "$run-sst2" --resume auto \
      --max-train-examples 4000 --epochs 3 --eval-every-steps 125 --seed "$seed" --threads 1 --precision "$PRECISION"
  done
done

"$python" tools/levers.py "$OUT"
