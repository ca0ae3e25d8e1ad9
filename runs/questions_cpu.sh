#!/usr/bin/env bash
# A small model learns to look answers up: questions made from plain text, easy ones first, then those of people.
#
#   runs/questions_cpu.sh                                 # 40 minutes of one core, and 20 for each seed of SQuAD
#   SEEDS=3 MODEL=RUN/model OUT=build/questions runs/questions_cpu.sh
#   TEXTS="a.txt b.txt" runs/questions_cpu.sh             # other English text, a paragraph a line
#   QUICK=1 OUT=build/try runs/questions_cpu.sh           # a few steps each: does it run at all?
#
# The bundled model has had this practice since, by a mean (ASKED in runs/bundled_cpu.sh); MODEL is for one that has not.
# OUT/hard/model is the start for tasks that compare a question with a passage. Finished parts are kept, an interrupted one
# goes on where it was. No question of SQuAD is used before the last step, and no passage of it in the made questions.
# bfloat16 pays on processors with AVX-512 BF16 or AMX only: PRECISION=float32 for others.
set -euo pipefail
cd "$(dirname "$0")/.."

MODEL="${MODEL:-bundled}"
OUT="${OUT:-build/questions}"
DATA="${LITEBERT_SHARED:-../shared}/data"
TEXTS="${TEXTS:-$DATA/corpus/wiki.txt.xz}"
litebert="${LITEBERT:-.venv/bin/litebert}"
python="${PYTHON:-.venv/bin/python}"
export OMP_NUM_THREADS=1

learn() { # RUN FROM DATA EXAMPLES SCORED EVERY [FLAG ...]
  local run=$1 from=$2 data=$3 examples=$4 scored=$5 every=$6
  shift 6
  [ -z "${QUICK:-}" ] || { examples=64 scored=32 every=2; }
  taskset -c "${CORE:-1}" "$litebert" finetune squad1 --model "$from" --data "$data" --out "$OUT/$run" --epochs 1 --batch-size 16 \
    --max-train-examples "$examples" --max-scored-examples "$scored" --max-dev-examples 200 --eval-every-steps "$every" \
    --precision "${PRECISION:-bfloat16}" --threads 1 --resume auto "$@"
}

made() { # LEVEL SEED PASSAGES FROM EXAMPLES EVERY
  local level=$1
  # shellcheck disable=SC2086  # TEXTS is a list
  [ -f "$OUT/text-$level/train-v1.1.json" ] || "$python" tools/cloze_questions.py "$OUT/text-$level" --input $TEXTS \
    --level "$level" --seed "$2" --passages "$3" --dev-passages 150 --per-passage 2 \
    --not-in "$DATA/squad/train-v1.1.json" "$DATA/squad/dev-v1.1.json"
  learn "$level" "$4" "$OUT/text-$level" "$5" 400 "$6"
}

# Each level begins where the one before it ended (why: docs/decisions/0021-questions-made-from-text.md).
made easy 0 8000 "$MODEL" 15000 150
made medium 1 8500 "$OUT/easy/model" 17000 150
made hard 2 16000 "$OUT/medium/model" 20000 200

learn squad1 "$OUT/hard/model" "$DATA/squad" 20000 3000 300 --seeds "${SEEDS:-1}"
