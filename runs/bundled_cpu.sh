#!/usr/bin/env bash
# More training for the model that comes with litebert: it starts from the one that is shipped.
#
#   SHARDS=build/evidence-shards runs/bundled_cpu.sh     # 30 million tokens, about 85 minutes of one core
#   TOKENS=200000 OUT=build/try runs/bundled_cpu.sh      # a rehearsal
#
# Adds what the first training lacked: a bag of words for [CLS], batches of short pairs for the sentence task
# (BERT's next sentence first, sentence order from 30 % on), and 512 positions in the middle of the run, so that
# the end is spent on the usual length. One thread on one core; an interrupted run goes on to the same bits.
# bfloat16 pays on processors with AVX-512 BF16 or AMX only: PRECISION=float32 for others.
# `runs/bundle.sh RUN SHARDS` then ships it.
set -euo pipefail
cd "$(dirname "$0")/.."

SHARDS="${SHARDS:-build/evidence-shards}" # wiki and novels, as runs/reproduce_cpu.sh prepares them
OUT="${OUT:-build/bundled/run}"
CORE="${CORE:-1}"
litebert="${LITEBERT:-.venv/bin/litebert}"

OMP_NUM_THREADS=1 exec taskset -c "$CORE" "$litebert" pretrain --config bundled --init-from "${START:-bundled}" \
  --data "$SHARDS/wiki" --extra-data "$SHARDS/novels" --out "$OUT" --resume auto --threads 1 \
  --tokens "${TOKENS:-30000000}" --seed "${SEED:-1}" --precision "${PRECISION:-bfloat16}" \
  --examples.micro-batch-size 16 --optimizer.lr 4e-4 --schedule.decay-share 0.35 \
  --curriculum.layers 0 6 --curriculum.lr-factor 0 1 \
  --curriculum.length 0 128 0.3 512 0.6 128 --curriculum.batch-size 0 16 0.3 4 0.6 16 \
  --curriculum.mask-rate 0 0.3 0.6 0.2 --curriculum.task 0 nsp 0.3 sop \
  --objective.bag-weight 1 --objective.pairs-every-steps 3 --objective.pairs-batch-size 64 \
  --evaluation.every-steps 1000 --evaluation.examples 1024 --evaluation.final-examples 8192 --checkpoint.every-steps 1000
