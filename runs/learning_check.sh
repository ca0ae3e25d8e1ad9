#!/usr/bin/env bash
# Does a pretrained model learn every kind of task? A fine-tuning of each and one table of scores.
#
#   MODEL=build/small_cpu/sop-0/model OUT=build/learning_check runs/learning_check.sh
#   TASKS="rte squad1" MODEL=... OUT=... runs/learning_check.sh   # some of them
#   QUICK=1 MODEL=... OUT=... runs/learning_check.sh      # a few steps each: does it run at all?
#   SEEDS=3 BASELINE=words,random FLAGS="--precision bfloat16 --threads 1" MODEL=bundled ... runs/learning_check.sh
#
# SEEDS=3 gives medians, for three times the time, and BASELINE=words,random a bag of words and the same from random
# weights beside them, for twice that. START=random trains random weights of the model's shape instead, each where a later
# BASELINE=random looks for them: the two halves of a table can be made at different times. Finished runs are kept, an
# interrupted one goes on where it was. FLAGS are given to every fine-tuning. Learning is from a part of the largest sets,
# as the table states. Data: GLUE, SQuAD and RACE below $LITEBERT_SHARED/data (QNLI, MNLI and QQP there are subsets).
set -euo pipefail
cd "$(dirname "$0")/.."

MODEL="${MODEL:?set MODEL to a model folder}"
OUT="${OUT:-build/learning_check}"
DATA="${LITEBERT_SHARED:-../shared}/data"
SEEDS="${SEEDS:-1}"
TASKS="${TASKS:-sst2-4000 sst2-9000 sst2 cola mrpc rte wnli stsb qnli mnli qqp squad1 squad2 race-middle}"
QUICK="${QUICK:-}"
BASELINE="${BASELINE:-}"
FLAGS="${FLAGS:-}"
litebert="${LITEBERT:-.venv/bin/litebert}"
runs=()

# learn NAME FOLDER EPOCHS TRAIN DEV [FLAG ...]: TRAIN and DEV are numbers of examples, or "all".
learn() {
  local name=$1 folder=$2 epochs=$3 train=$4 dev=$5 out="$OUT/$1"
  shift 5
  case " $TASKS " in *" $name "*) ;; *) return 0 ;; esac
  [ -z "$QUICK" ] || { epochs=1 train=64 dev=32; }
  [ "$train" = all ] || set -- "$@" --max-train-examples "$train"
  [ "$dev" = all ] || set -- "$@" --max-scored-examples "$dev"
  [ "${START:-}" != random ] || { out="$out/random" && set -- "$@" --start random; }
  echo "== $name" >&2
  # shellcheck disable=SC2086  # FLAGS is a list
  "$litebert" finetune "${name%%-[0-9]*}" --model "$MODEL" --data "$DATA/$folder" --out "$out" \
    --epochs "$epochs" --seeds "$SEEDS" --resume auto ${BASELINE:+--baseline "$BASELINE"} $FLAGS "$@"
  runs+=("$out")
}

# Few examples, several epochs: what a model brings along shows here.
learn sst2-4000 glue 6 4000 all --eval-every-steps 125
learn sst2-9000 glue 4 9000 all --eval-every-steps 280

# All examples; of SST-2, which is large, two epochs.
learn sst2 glue 2 all all
learn cola glue 4 all all
learn mrpc glue 3 all all
learn rte glue 4 all all
learn wnli glue 4 all all

# Larger pairs, fewer epochs. A part of a large dev split picks the weights; all of it is scored.
learn stsb glue 3 all all
learn qnli glue 2 all all --max-dev-examples 500
learn mnli glue 2 all all --max-dev-examples 500
learn qqp glue 1 12000 all --max-dev-examples 500

# Long inputs: a part. So short a run needs small batches to make enough steps.
learn squad1 squad 1 "${SQUAD:-20000}" 3000 --batch-size 16 --eval-every-steps 300 --max-dev-examples 200
learn squad2 squad/v2_split 1 2500 all --batch-size 16 --max-dev-examples 200 --eval-every-steps 80
learn race-middle race 1 700 500 --batch-size 8 --max-dev-examples 50 --eval-every-steps 45

"$litebert" report "${runs[@]}" --table "$OUT/table.md"
