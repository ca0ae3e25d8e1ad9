#!/usr/bin/env bash
# A model adapted to other text, beside continued pretraining with the old vocabulary and training from scratch:
# the same time on one core each, loss per character on the same held-out text.
#
#   runs/adapt_compare.sh                                            # the Python documentation of the demo, 15 minutes, seeds 0 and 1
#   TEXT=texts/de.txt LANGUAGE=de NAME=german runs/adapt_compare.sh  # another language; TEXT may be a folder
#   MINUTES=1 SEEDS=0 runs/adapt_compare.sh                          # a try
#   LENGTH="--steps 300" runs/adapt_compare.sh                       # by steps where the machine is shared
#
# `python bench/languages.py --text FOLDER --languages de --write texts` makes texts/de.txt of Debian's handbook and help.
# Every twentieth document is held out: nothing learns from it, no vocabulary either. Learning the vocabulary and
# tokenising are not counted. Finished parts are kept, interrupted trainings go on.
set -euo pipefail
cd "$(dirname "$0")/.."

NAME="${NAME:-python}"
OUT="${OUT:-build/adapt_compare}/$NAME"
MODEL="${MODEL:-bundled}"
MINUTES="${MINUTES:-15}"
SEEDS="${SEEDS:-0 1}"
LANGUAGE="${LANGUAGE:-}"
LENGTH="${LENGTH:---budget ${MINUTES}m}"
ADAPT="${ADAPT:-}" # further flags of `adapt`, such as --freeze-share 0.2
CONDITIONS="${CONDITIONS:-adapt continued scratch}"
# The shape of the bundled model: from scratch is the same model.
SHAPE="${SHAPE:---model.hidden-size 192 --model.num-heads 3 --model.intermediate-size 768}"
litebert="${LITEBERT:-.venv/bin/litebert}"
python="${PYTHON:-.venv/bin/python}"
export OMP_NUM_THREADS=1

# 1. The text, and every twentieth document of it apart.
"$python" tools/hold_out.py "${TEXT:-python}" "$OUT"

language=()
[ -n "$LANGUAGE" ] && language=(--language "$LANGUAGE")
score() { # FOLDER NAME
  [ -f "$OUT/$2.json" ] ||
    { "$litebert" evaluate pretraining --model "$1" --text "$OUT/held.jsonl" --threads 1 --json > "$OUT/$2.json.new" &&
      mv "$OUT/$2.json.new" "$OUT/$2.json"; }
}

# 2. What the model knows of the text as it is.
score "$MODEL" before

# 3. The three ways. From scratch learns with the vocabulary that `adapt` learned.
for seed in $SEEDS; do
  for condition in $CONDITIONS; do
    run="$OUT/$condition-$seed"
    [ -f "$OUT/$condition-$seed.json" ] && continue
    case "$condition" in
      adapt | continued)
        keep=()
        [ "$condition" = continued ] && keep=(--keep-vocabulary)
        # shellcheck disable=SC2086  # flags
        "$litebert" adapt --model "$MODEL" --input "$OUT/train.jsonl" --dev-input "$OUT/held.jsonl" --out "$run" \
          "${keep[@]}" "${language[@]}" $LENGTH $ADAPT --seed "$seed" --threads 1 --resume auto
        ;;
      scratch)
        # shellcheck disable=SC2086  # flags
        "$litebert" pretrain --config small --data "$OUT/adapt-$seed/shards" --out "$run" $LENGTH $SHAPE \
          --seed "$seed" --threads 1 --resume auto
        ;;
    esac
    score "$run/model" "$condition-$seed"
  done
done

# 4. The table.
OUT="$OUT" "$python" - <<'END'
import json, os, pathlib, statistics

out = pathlib.Path(os.environ["OUT"])
print(f"\n{out.name}, nats per character of hidden words in {out / 'held.jsonl'}\n")
print("| | seeds | mean | pieces per word | unknown |\n| --- | --- | --- | --- | --- |")
for condition in ("before", "scratch", "continued", "adapt"):
    files = sorted([*out.glob(f"{condition}.json"), *out.glob(f"{condition}-*.json")])
    found = [json.loads(file.read_text()) for file in files]
    if found:
        losses = [one["loss_per_character"] for one in found]
        row = [condition, " ".join(f"{loss:.4f}" for loss in losses), f"{statistics.fmean(losses):.4f}"]
        print("| " + " | ".join([*row, f"{found[0]['pieces_per_word']:.3f}", f"{found[0]['unknown_share']:.2%}"]) + " |")
END
