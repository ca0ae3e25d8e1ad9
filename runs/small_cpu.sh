#!/usr/bin/env bash
# Pretrain albert-small on a CPU in about an hour: corpus -> tokenizer -> shards -> model -> report.
#
#   runs/small_cpu.sh                      # the corpus in ../shared (or LITEBERT_SHARED), 50 minutes
#   BUDGET=10m TASK=nsp runs/small_cpu.sh  # another time, another sentence task
#   CORPUS=my-texts/ runs/small_cpu.sh     # your own text
#   RECIPE=bundled BUDGET=95m runs/small_cpu.sh   # the model that comes with litebert
#
# Every stage that is finished is kept; an interrupted training goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."

SHARED="${LITEBERT_SHARED:-../shared}"
CORPUS="${CORPUS:-$SHARED/data/corpus}"
OUT="${OUT:-build/small_cpu}"
RECIPE="${RECIPE:-small}"
BUDGET="${BUDGET:-50m}"
TASK="${TASK:-sop}"
SEED="${SEED:-0}"
litebert="${LITEBERT:-.venv/bin/litebert}"

# 1. A vocabulary of 8,192 pieces: small models spend most of their parameters on the word table.
[ -f "$OUT/tokenizer/spiece.model" ] ||
  "$litebert" tokenizer train --input "$CORPUS" --out "$OUT/tokenizer" --vocab-size 8192

# 2. Token shards; 3 % of the documents are set aside, enough for 4,000 dev pairs.
[ -f "$OUT/shards/manifest.json" ] ||
  "$litebert" prepare --input "$CORPUS" --tokenizer "$OUT/tokenizer" --out "$OUT/shards" \
    --dev-fraction 0.03

# 3. Train. The dev pairs follow the paper's rules and are balanced: half of them swapped.
"$litebert" pretrain --config "$RECIPE" --data "$OUT/shards" \
  --out "$OUT/$TASK-$SEED" --budget "$BUDGET" --seed "$SEED" --examples.task "$TASK" \
  --evaluation.final-examples 8192 --resume auto

# 4. What it learned.
"$litebert" fill-mask --model "$OUT/$TASK-$SEED/model" "The capital of France is [MASK]."
