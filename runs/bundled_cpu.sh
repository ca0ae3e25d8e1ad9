#!/usr/bin/env bash
# More training for the model that comes with litebert: words, sentence order and, with VECTORS, meaning; or twice the width.
#
#   runs/bundled_cpu.sh                                   # 9.5 and 6.8 million tokens, about two hours of one core
#   WORDS=30000000 ORDER=10000000 runs/bundled_cpu.sh     # longer
#   WORDS=100000 ORDER=100000 OUT=build/try runs/bundled_cpu.sh   # a rehearsal; of the last ones: STEPS=4 SETTLE=2 FINAL=64
#   VECTORS=vectors.parquet runs/bundled_cpu.sh           # and then what a sentence encoder says of sentences, for [CLS]
#   WIDEN=NARROW VECTORS=vectors.parquet runs/bundled_cpu.sh   # how it was made of NARROW, the model of half its width before it
#   SENTENCES=1 VECTORS=vectors.parquet runs/bundled_cpu.sh    # what came after that: single texts, half of them short
#   WHOLE=1 VECTORS=vectors.parquet runs/bundled_cpu.sh        # then words in single texts, order in short pairs, bag, teacher
#   LONGER=1 VECTORS=vectors.parquet runs/bundled_cpu.sh       # then more pairs
#   TOLD=ENCODER VECTORS=vectors.parquet runs/bundled_cpu.sh   # then a word table drawn towards the encoder's
#   MEAN=1 VECTORS=vectors.parquet runs/bundled_cpu.sh         # then the mean of all these, trained on both cores
#   ASKED=build/questions/hard/model VECTORS=vectors.parquet runs/bundled_cpu.sh   # and last: looking up (runs/questions_cpu.sh)
#
# SHARDS holds wiki and novels as runs/reproduce_cpu.sh prepares them. One thread on one core; interrupted trainings
# go on to the same bits. bfloat16 pays on processors with AVX-512 BF16 or AMX only: PRECISION=float32 for others.
# REFIT=1 first lets positions that were never trained continue the learned pattern (needed once, for 0.1.0's model).
# `runs/bundle.sh OUT/order SHARDS/wiki` (or OUT/meaning, OUT/wide, OUT/sentences, OUT/settled-...) then ships it.
set -euo pipefail
cd "$(dirname "$0")/.."

SHARDS="${SHARDS:-build/evidence-shards}"
OUT="${OUT:-build/bundled}"
START="${START:-bundled}"
shape="--model.hidden-size 384 --model.num-heads 6 --model.intermediate-size 1280"
litebert="${LITEBERT:-.venv/bin/litebert}"
python="${PYTHON:-.venv/bin/python}"
export OMP_NUM_THREADS=1

train() { # RUN FROM LENGTH SEED DECAY_SHARE [FLAG ...]
  local run=$1 from=$2 length=$3 seed=$4 decay=$5
  shift 5
  # shellcheck disable=SC2086  # shape and length are flags with values
  taskset -c "${CORE:-1}" "$litebert" pretrain --config bundled $shape --init-from "$from" --out "$OUT/$run" $length \
    --seed "$seed" --data "$SHARDS/wiki" --extra-data "$SHARDS/novels" --resume auto --threads 1 \
    --precision "${PRECISION:-bfloat16}" --schedule.decay-share "$decay" --curriculum.layers 0 6 --curriculum.lr-factor 0 1 \
    --evaluation.examples 1024 "$@"
}

# Twice as wide: the same answers at first, room to learn more (tools/widen.py). Words at the full rate, then words, order and
# meaning while the rate falls.
if [ -n "${WIDEN:-}" ]; then
  [ -d "$OUT/widened" ] || "$python" tools/widen.py "$WIDEN" "$OUT/widened" --intermediate-size 1280
  common="--examples.task sop --batch-size 16 --examples.micro-batch-size 16 --curriculum.batch-size 0 16 --objective.bag-weight 0.3"
  # shellcheck disable=SC2086
  train room "$OUT/widened" "--steps 1900" 11 0.01 $common --optimizer.lr 6e-4 --curriculum.mask-rate 0 0.3 \
    --evaluation.every-steps 500 --checkpoint.every-steps 400
  # shellcheck disable=SC2086
  train wide "$OUT/room/model" "--steps ${STEPS:-2600}" 12 0.6 $common --optimizer.lr 6e-4 --curriculum.mask-rate 0 0.2 \
    --teacher "$VECTORS" --objective.teacher-weight 3 --objective.teacher-batch-size 32 \
    --objective.pairs-every-steps 4 --objective.pairs-batch-size 48 \
    --evaluation.every-steps 800 --checkpoint.every-steps 200 --evaluation.final-examples 8192
  exit
fi

# Texts as a user gives them: one segment, half of them shorter than 128 tokens. Until then every example with masks had two
# segments and 128 tokens, and in a short sentence the model repeated the words around the hidden one.
if [ -n "${SENTENCES:-}" ]; then
  common="--examples.task none --objective.bag-weight 0 --batch-size 16 --examples.micro-batch-size 16 --curriculum.batch-size 0 16"
  # shellcheck disable=SC2086
  train single-first "$START" "--steps 500" 21 0.8 $common --examples.short-probability 0.7 --optimizer.lr 3e-4 \
    --curriculum.mask-rate 0 0.2 --evaluation.every-steps 250
  # shellcheck disable=SC2086
  train single "$OUT/single-first/model" "--steps 1500" 31 0.01 $common --examples.short-probability 0.5 --optimizer.lr 6e-4 \
    --curriculum.mask-rate 0 0.3 --evaluation.every-steps 500 --checkpoint.every-steps 300
  # shellcheck disable=SC2086
  train sentences "$OUT/single/model" "--steps ${STEPS:-2800}" 32 0.7 $common --examples.short-probability 0.5 --optimizer.lr 6e-4 \
    --curriculum.mask-rate 0 0.2 --teacher "$VECTORS" --objective.teacher-weight 3 --objective.teacher-batch-size 32 \
    --objective.teacher-every-steps 2 --evaluation.every-steps 700 --checkpoint.every-steps 200 --evaluation.final-examples 8192
  exit
fi

# Everything at once: words of single texts, in every step short pairs of sentence order, a bag of words, the teacher's vectors.
# Then the mean of what it was (BEFORE: the folder that START names) and what it became, which finds more hidden words than
# either and keeps most of the order; a few steps settle it. LONGER=1 is one more round of it, with more pairs,
# TOLD=ENCODER one that begins with words drawn half-way towards what a sentence encoder knows of them.
# (Run as it is here, but for the first 388 of the 1,200 steps of "whole", whose pairs were those of "joined".)
if [ -n "${WHOLE:-}${LONGER:-}${TOLD:-}" ]; then
  common="--examples.task none --objective.pairs-every-steps 1 --objective.pairs-task sop --objective.sentence-weight 2
    --checkpoint.every-steps 100"
  taught="--objective.pairs-length 128 --curriculum.mask-rate 0 0.2
    --teacher $VECTORS --objective.teacher-weight 3 --objective.teacher-batch-size 32"
  before="${BEFORE:-src/litebert/bundled/model}"
  if [ -n "${WHOLE:-}" ]; then
    texts="--examples.short-probability 0.5 --batch-size 16 --examples.micro-batch-size 16 --curriculum.batch-size 0 16
      --objective.bag-weight 0.3"
    taught="$texts $taught --objective.pairs-batch-size 24 --objective.teacher-every-steps 2"
    # shellcheck disable=SC2086
    train joined "$START" "--steps 550" 41 0.01 $common $texts --optimizer.lr 6e-4 --objective.pairs-batch-size 48 \
      --curriculum.mask-rate 0 0.3 --evaluation.every-steps 275
    # shellcheck disable=SC2086
    train whole "$OUT/joined/model" "--steps ${STEPS:-1200}" 42 0.7 $common $taught --optimizer.lr 6e-4 --evaluation.every-steps 300
    last=whole seed=43 parts=("$before" "$OUT/whole/model")
  elif [ -n "${LONGER:-}" ]; then
    texts="--examples.short-probability 0.25 --batch-size 12 --examples.micro-batch-size 12 --curriculum.batch-size 0 12
      --objective.bag-weight 1"
    taught="$texts $taught --objective.pairs-batch-size 32 --objective.teacher-every-steps 4"
    # shellcheck disable=SC2086
    train longer "$START" "--steps ${STEPS:-1600}" 51 0.7 $common $taught --optimizer.lr 6e-4 --evaluation.every-steps 400
    last=longer seed=53 parts=("$before" "$OUT/longer/model" "$OUT/longer/model") # two thirds of what it became
  else
    texts="--examples.short-probability 0.3 --batch-size 24 --examples.micro-batch-size 24 --curriculum.batch-size 0 24
      --objective.bag-weight 1"
    taught="$texts $taught --objective.pairs-batch-size 16 --objective.teacher-every-steps 2"
    [ -d "$OUT/blended" ] || "$python" tools/blend_words.py "$before" "$TOLD" "$OUT/blended"
    # shellcheck disable=SC2086
    train told "$OUT/blended" "--steps ${STEPS:-1600}" 61 0.7 $common $taught --optimizer.lr 6e-4 --evaluation.every-steps 400
    last=told seed=63 parts=("$before" "$OUT/told/model")
  fi
  [ -d "$OUT/mean-of-$last" ] || "$python" tools/average.py "${parts[@]}" "$OUT/mean-of-$last"
  # shellcheck disable=SC2086
  train "settled-$last" "$OUT/mean-of-$last" "--steps ${SETTLE:-60}" $seed 0.9 $common $taught --optimizer.lr 5e-5 \
    --schedule.warmup-floor 5 --evaluation.every-steps 0 --evaluation.final-examples "${FINAL:-8192}"
  exit
fi

# The last two parts: everything at once, the rate lower than before and falling from the beginning.
common="--objective.sentence-weight 2 --objective.bag-weight 0.5 --objective.pairs-length 128 --curriculum.mask-rate 0 0.2
  --examples.short-probability 0.3 --batch-size 24 --examples.micro-batch-size 24 --curriculum.batch-size 0 24"
taught="--teacher ${VECTORS:-} --objective.teacher-weight 3 --objective.teacher-batch-size 32 --objective.teacher-every-steps 2"
single="--examples.task none --objective.pairs-task sop --objective.pairs-every-steps 1 --objective.pairs-batch-size 16"
settled="$taught --optimizer.lr 5e-5 --schedule.warmup-floor 5 --evaluation.every-steps 0 --evaluation.final-examples ${FINAL:-8192}"

# The mean of all that it has been since it was made wide (from the history of this repository) has fewer wrong words than any of
# the five. From there two trainings side by side, a core each, that differ in the form of their texts: words in single texts, and in
# the pairs of sentence order; and their mean, two parts each, with one part of the last of the five.
if [ -n "${MEAN:-}" ]; then
  parts=()
  for commit in d41c70f 6eca946 bddd24a 3a78d0c 26bfcf0; do
    if [ ! -d "$OUT/was/$commit" ]; then
      mkdir -p "$OUT/was/part"
      git archive "$commit" src/litebert/bundled/model | tar -x --strip-components 4 -C "$OUT/was/part"
      mv "$OUT/was/part" "$OUT/was/$commit"
    fi
    parts+=("$OUT/was/$commit")
  done
  [ -d "$OUT/mean-of-five" ] || "$python" tools/average.py "${parts[@]}" "$OUT/mean-of-five"
  falling="$taught --optimizer.lr 3e-4 --schedule.warmup-floor 40 --evaluation.every-steps 500 --checkpoint.every-steps 100"
  # shellcheck disable=SC2086
  CORE=0 train by-text "$OUT/mean-of-five" "--steps ${STEPS:-1500}" 71 0.95 $common $single $falling &
  # shellcheck disable=SC2086
  CORE=1 train by-pair "$OUT/mean-of-five" "--steps ${STEPS:-1500}" 72 0.95 $common $falling --examples.task sop \
    --objective.pairs-every-steps 2 --objective.pairs-batch-size 24
  wait %1
  [ -d "$OUT/mean-of-both" ] || "$python" tools/average.py "$OUT"/by-{pair,pair,text,text}/model "${parts[-1]}" "$OUT/mean-of-both"
  # shellcheck disable=SC2086
  train settled-both "$OUT/mean-of-both" "--steps ${SETTLE:-60}" 73 0.9 $common $single $settled
  exit
fi

# Looking up. Questions made from text teach it and cost it the words (ASKED is hard/model of runs/questions_cpu.sh from the weights
# of f2a2ee8, and BEFORE is those). The mean of the encoder before and after keeps both, nearly; a short training brings most of the
# words back. A longer one at a higher rate, or a second mean, takes the looking up away again.
if [ -n "${ASKED:-}" ]; then
  [ -d "$OUT/mean-of-asked" ] || "$python" tools/average.py "$ASKED" "${BEFORE:-src/litebert/bundled/model}" "$OUT/mean-of-asked"
  # shellcheck disable=SC2086
  train looking "$OUT/mean-of-asked" "--steps ${STEPS:-150}" 91 0.95 $common $single --optimizer.lr 2e-4 --schedule.warmup-floor 20 \
    --evaluation.every-steps 100 --checkpoint.every-steps 100 --evaluation.final-examples "${FINAL:-4096}"
  # shellcheck disable=SC2086
  train settled-looking "$OUT/looking/model" "--steps ${SETTLE:-60}" 94 0.9 $common $single $settled
  exit
fi

if [ -n "${REFIT:-}" ]; then
  [ -d "$OUT/start" ] || "$python" tools/refit_positions.py src/litebert/bundled/model "$OUT/start"
  START="$OUT/start"
fi

# 1. Masked words and a bag of words; every fourth step 64 short pairs of BERT's next-sentence task.
train words "$START" "--tokens ${WORDS:-9500000}" 2 0.5 --examples.task nsp --objective.pairs-every-steps 4 \
  --objective.pairs-batch-size 64 --optimizer.lr 4e-4 \
  --batch-size 16 --examples.micro-batch-size 16 --curriculum.batch-size 0 16 --curriculum.mask-rate 0 0.3 0.6 0.2 \
  --evaluation.every-steps 800 --checkpoint.every-steps 800

# 2. Sentence order: 64 short pairs in every step, a few examples with masks beside them to keep the words.
train order "$OUT/words/model" "--tokens ${ORDER:-6800000}" 3 0.5 --examples.task sop --objective.pairs-every-steps 1 \
  --objective.pairs-batch-size 64 --optimizer.lr 3e-4 \
  --batch-size 4 --examples.micro-batch-size 4 --curriculum.batch-size 0 4 --curriculum.mask-rate 0 0.2 \
  --objective.mlm-weight 0.3 --objective.bag-weight 0.3 --evaluation.every-steps 400 --checkpoint.every-steps 400 \
  --evaluation.final-examples 8192

# 3. What texts mean, and how alike two are: [CLS] of 80 words, phrases, sentences and pairs in every step is drawn towards what a
# sentence encoder says of them, words and order beside it.
# python tools/embed_pairs.py ENCODER vectors.parquet --input wiki.txt.xz novels.txt.xz --squad train-v1.1.json --count 13000
[ -z "${VECTORS:-}" ] ||
  train meaning "$OUT/order/model" "--tokens ${MEANING:-22700000}" 5 0.5 --teacher "$VECTORS" --objective.teacher-weight 4 \
    --objective.teacher-batch-size 80 \
    --examples.task sop --objective.pairs-every-steps 3 --objective.pairs-batch-size 48 --objective.bag-weight 0.3 --optimizer.lr 8e-4 \
    --batch-size 8 --examples.micro-batch-size 8 --curriculum.batch-size 0 8 --curriculum.mask-rate 0 0.2 \
    --evaluation.every-steps 1000 --checkpoint.every-steps 500 --evaluation.final-examples 8192
