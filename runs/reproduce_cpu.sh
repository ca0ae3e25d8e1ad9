#!/usr/bin/env bash
# The paper's tables and figures at scale cpu: corpus -> shards -> runs -> verdicts -> evidence.
#
#   runs/reproduce_cpu.sh                     # everything, on the data in ../shared (or LITEBERT_SHARED)
#   WHAT="table4 figure1" runs/reproduce_cpu.sh
#   WHAT=table4 TOKENS=20k SEEDS=2 OUT=build/try runs/reproduce_cpu.sh   # a rehearsal
#
# Every stage and every run that is finished is kept: start it again after an interruption.
set -euo pipefail
cd "$(dirname "$0")/.."

DATA="${LITEBERT_SHARED:-../shared}/data"
OUT="${OUT:-build/evidence}"
SHARDS="${SHARDS:-build/evidence-shards}"
WHAT="${WHAT:-all}"
litebert="${LITEBERT:-.venv/bin/litebert}"

# 1. One vocabulary of 8,192 pieces for all text: that of the bundled model, from which Table 5 starts.
TOKENIZER="${TOKENIZER:-src/litebert/bundled/model}"

# 2. Shards: the plain corpus, more data, and text to measure on that nothing is learned from.
# In this order: another one gives other shards, for which docs/evidence.jsonl holds no runs.
prepare() { # NAME DEV_FRACTION FILE ...
  [ -f "$SHARDS/$1/manifest.json" ] ||
    "$litebert" prepare --input "${@:3}" --tokenizer "$TOKENIZER" --out "$SHARDS/$1" --dev-fraction "$2"
}
prepare wiki 0.005 "$DATA/corpus/wiki.txt.xz"
prepare novels 0.005 "$DATA/corpus/novels.txt.xz"
prepare squad 0 "$DATA/squad/dev-v1.1.json"
prepare race 0 "$DATA/race/dev.middle.jsonl" "$DATA/race/dev.high.jsonl"

# 3. Runs, verdicts, pages; docs/evidence.md is the page of the whole set.
# shellcheck disable=SC2086
"$litebert" reproduce $WHAT --data "$SHARDS/wiki" "$SHARDS/novels" --dev "$SHARDS/squad" "$SHARDS/race" \
  --task-data "$DATA/glue" --out "$OUT" --evidence "${EVIDENCE:-$OUT/evidence.md}" \
  ${TOKENS:+--tokens "$TOKENS"} ${SEEDS:+--seeds "$SEEDS"}
