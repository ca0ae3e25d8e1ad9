#!/usr/bin/env bash
# Turn a finished pretraining run into the model that comes with litebert.
#
#   runs/bundle.sh build/small_cpu/sop-0 build/small_cpu/shards
#   FINETUNED="runs/sst2 runs/rte" runs/bundle.sh RUN SHARDS     # their scores go into the card
#
# Writes src/litebert/bundled/model: float16 weights, tokenizer, card; at most 6 MB, or nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

RUN="$1"
SHARDS="$2"
DATA="${DATA:-Articles of the English Wikipedia and novels out of copyright. Wikipedia's text is under CC BY-SA 4.0, by its authors; the novels are in the public domain. The weights are under Apache-2.0.}"
python="${PYTHON:-.venv/bin/python}"

# shellcheck disable=SC2086  # FINETUNED is a list
"$python" -m litebert.experiments.bundle "$RUN" --shards "$SHARDS" --data "$DATA" \
  --finetuned ${FINETUNED:-}

# What a newcomer will do first.
"${LITEBERT:-.venv/bin/litebert}" fill-mask "the capital of france is [MASK]."
