#!/usr/bin/env bash
# Does a pretrained model learn every kind of task? Twelve fine-tunings and one table of scores.
#
#   MODEL=build/small_cpu/sop-0/model OUT=build/learning_check runs/learning_check.sh
#   TASKS="rte squad1" MODEL=... OUT=... runs/learning_check.sh   # some of them
#   QUICK=1 MODEL=... OUT=... runs/learning_check.sh      # a few steps each: does it run at all?
#
# Cut for about 40 minutes on two cores with albert-small (estimated from its training speed; the
# table has the minutes it took). The single sentences and pairs learn from all their examples but
# for QQP; QQP, SQuAD and RACE from a part, which the table states. Finished tasks are kept, an
# interrupted one goes on where it was. SEEDS=3 gives medians, for three times the time, and
# BASELINE=words,random a bag of words and the same from random weights beside them, for twice that.
# FLAGS="--lr 6e-4 --precision bfloat16" are given to every fine-tuning.
# Data: GLUE, SQuAD and RACE below $LITEBERT_SHARED/data (QNLI, MNLI and QQP there are subsets).
set -euo pipefail
cd "$(dirname "$0")/.."

MODEL="${MODEL:?set MODEL to a model folder}"
OUT="${OUT:-build/learning_check}"
DATA="${LITEBERT_SHARED:-../shared}/data"
SEEDS="${SEEDS:-1}"
TASKS="${TASKS:-sst2 cola mrpc rte wnli stsb qnli mnli qqp squad1 squad2 race-middle}"
QUICK="${QUICK:-}"
BASELINE="${BASELINE:-}"
FLAGS="${FLAGS:-}"
litebert="${LITEBERT:-.venv/bin/litebert}"
runs=()

# learn TASK FOLDER EPOCHS TRAIN DEV [FLAG ...]: TRAIN and DEV are numbers of examples, or "all".
learn() {
  local task=$1 folder=$2 epochs=$3 train=$4 dev=$5
  shift 5
  case " $TASKS " in *" $task "*) ;; *) return 0 ;; esac
  [ -z "$QUICK" ] || { epochs=1 train=64 dev=32; }
  [ "$train" = all ] || set -- "$@" --max-train-examples "$train"
  [ "$dev" = all ] || set -- "$@" --max-scored-examples "$dev"
  echo "== $task" >&2
  # shellcheck disable=SC2086  # FLAGS is a list
  "$litebert" finetune "$task" --model "$MODEL" --data "$DATA/$folder" --out "$OUT/$task" \
    --epochs "$epochs" --seeds "$SEEDS" --resume auto ${BASELINE:+--baseline "$BASELINE"} $FLAGS "$@"
  runs+=("$OUT/$task")
}

# In full: all examples, the small recipe's epochs (of SST-2, which is large, one).
learn sst2 glue 1 all all
learn cola glue 4 all all
learn mrpc glue 4 all all
learn rte glue 4 all all
learn wnli glue 4 all all

# Larger pairs, fewer epochs. A part of a large dev split picks the weights; all of it is scored.
learn stsb glue 3 all all
learn qnli glue 1 all all --max-dev-examples 500
learn mnli glue 1 all all --max-dev-examples 500
learn qqp glue 1 12000 all --max-dev-examples 500

# Long inputs: a part. So short a run needs small batches to make enough steps.
learn squad1 squad 1 7000 3000 --batch-size 16 --eval-every-steps 150 --max-dev-examples 200
learn squad2 squad/v2_split 1 2500 all --batch-size 16 --max-dev-examples 200 --eval-every-steps 80
learn race-middle race 1 700 500 --batch-size 8 --max-dev-examples 50 --eval-every-steps 45

"$litebert" report "${runs[@]}" --table "$OUT/table.md"
