#!/usr/bin/env bash
# Turn a finished pretraining run into the model that comes with litebert.
#
#   runs/bundle.sh build/small_cpu/sop-0 build/small_cpu/shards
#   FINETUNED="runs/sst2 runs/rte" runs/bundle.sh RUN SHARDS     # their scores go into the card
#   EARLIER="..." EARLIER_TOKENS=45900000 runs/bundle.sh ...     # how the model that RUN continued was trained
#   GLUE=glue runs/bundle.sh ...                                 # with probes of the frozen states on SST-2
#
# SHARDS are the run's, or those of a part of its text with the same --dev-fraction (Wikipedia alone, say):
# which documents are held out depends on their text only. Their sentences are what the model is asked about.
# Writes src/litebert/bundled/model: float16 weights of at most 6 MB, tokenizer, card; or nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

RUN="$1"
SHARDS="$2"
TEXTS="Articles of the English Wikipedia and novels out of copyright. The articles are under CC BY-SA 3.0, by their authors; the novels are in the public domain. The weights are under Apache-2.0."
python="${PYTHON:-.venv/bin/python}"

# shellcheck disable=SC2086  # FINETUNED is a list
"$python" tools/bundle.py "$RUN" --shards "$SHARDS" --data "${DATA:-$TEXTS}" \
  ${EARLIER:+--earlier "$EARLIER"} ${EARLIER_TOKENS:+--earlier-tokens "$EARLIER_TOKENS"} ${GLUE:+--glue "$GLUE"} \
  --finetuned ${FINETUNED:-}

# What a newcomer will do first.
"${LITEBERT:-.venv/bin/litebert}" fill-mask "the capital of france is [MASK]."
