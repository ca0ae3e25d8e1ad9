#!/usr/bin/env bash
# Small models of other languages from a few megabytes of text, ten minutes on one core each; German twice, with the
# official normalisation (accents dropped) and with keep-accents.
#
#   python bench/languages.py --text debian --languages ko de --write texts     # Debian's handbook and LibreOffice's help
#   TEXTS=texts runs/languages_train.sh
#   MINUTES=1 RUNS="de:official" TEXTS=texts runs/languages_train.sh             # a try
#
# Every twentieth document is held out. Finished parts are kept, an interrupted training goes on.
# The loss per character of `official` is of a poorer text: its vocabulary reads "Tür" as "tur".
set -euo pipefail
cd "$(dirname "$0")/.."

TEXTS="${TEXTS:?set TEXTS to a folder with ko.txt and de.txt}"
OUT="${OUT:-build/languages_train}"
RUNS="${RUNS:-ko:keep-accents de:keep-accents de:official}"
MINUTES="${MINUTES:-10}"
LENGTH="${LENGTH:---budget ${MINUTES}m}"
SEED="${SEED:-0}"
# The shape of the bundled model.
SHAPE="${SHAPE:---model.hidden-size 192 --model.num-heads 3 --model.intermediate-size 768}"
litebert="${LITEBERT:-.venv/bin/litebert}"
python="${PYTHON:-.venv/bin/python}"
export OMP_NUM_THREADS=1

for run in $RUNS; do
  language="${run%%:*}" rule="${run#*:}"
  text="$OUT/$language" out="$OUT/$language-$rule"
  "$python" tools/hold_out.py "$TEXTS/$language.txt" "$text"
  [ -d "$out/tokenizer" ] ||
    "$litebert" tokenizer train --input "$text/train.jsonl" --out "$out/tokenizer" --vocab-size 8192 --shrink \
      --language "$language" --normalization "$rule"
  "$litebert" prepare --input "$text/train.jsonl" --dev-input "$text/held.jsonl" --tokenizer "$out/tokenizer" \
    --out "$out/shards" --language "$language" --workers 1
  # shellcheck disable=SC2086  # flags
  "$litebert" pretrain --config small --data "$out/shards" --out "$out/run" $LENGTH $SHAPE --seed "$SEED" --threads 1 \
    --resume auto --json > "$out/result.json"
  "$litebert" evaluate pretraining --model "$out/run/model" --text "$text/held.jsonl" --threads 1 --json > "$out/characters.json"
done

OUT="$OUT" "$python" - <<'END'
import json, os, pathlib

rows = ["| | dev loss at masks | word frequencies alone | words right there | nats per character | pieces per word |",
        "| --- | --- | --- | --- | --- | --- |"]
for file in sorted(pathlib.Path(os.environ["OUT"]).glob("*/characters.json")):
    scores = json.loads((file.parent / "result.json").read_text())["scores"]
    found = json.loads(file.read_text())
    rows.append(f"| {file.parent.name} | {scores['masked_loss']:.3f} | {scores['unigram_loss']:.3f} | "
                f"{scores['masked_accuracy']:.1%} | {found['loss_per_character']:.4f} | {found['pieces_per_word']:.3f} |")
    print(f"\n{file.parent.name}: what it fills in")
    for sample in json.loads((file.parent / "run" / "samples.json").read_text())["fill_mask"]:
        words = ", ".join(f"{word} {score:.2f}" for word, score in sample["candidates"])
        print(f"  {sample['text']}\n    {sample['answer']}: {words}")
print("\n" + "\n".join(rows))
END
