#!/usr/bin/env bash
# A small model of sentence vectors, taught by a larger one: its vectors, and its cosines of related sentences.
#
#   VECTORS=vectors.parquet DEV=stsb-dev.jsonl runs/taught_cpu.sh
#   SHIP=1 VECTORS=... DEV=... runs/taught_cpu.sh       # and make it the one that comes with litebert
#
# VECTORS: Parquet with the columns text and embedding, of sentences that any encoder has embedded (for example
# `SentenceTransformer(...).encode(texts)`). DEV: JSON lines with text, text_pair and score between 0 and 1. No label is
# learned from. Two layers of MODEL are enough for it, and three times as fast as six.
set -euo pipefail
cd "$(dirname "$0")/.."

VECTORS="${VECTORS:?set VECTORS to a Parquet file of sentences and their vectors}"
DEV="${DEV:?set DEV to JSON lines with text, text_pair and score}"
OUT="${OUT:-build/taught_cpu}"
MODEL="${MODEL:-src/litebert/bundled/model}"
EPOCHS="${EPOCHS:-3}"
litebert="${LITEBERT:-.venv/bin/litebert}"
python="${PYTHON:-.venv/bin/python}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
mkdir -p "$OUT"

# 1. Each sentence with one of its thirty nearest by the teacher, and the teacher's cosine.
[ -f "$OUT/pairs.jsonl" ] || "$python" tools/teacher_pairs.py "$VECTORS" "$OUT/pairs.jsonl"

# 2. Two layers: all of the model's share one block, so the file of weights stays as it is.
if [ ! -d "$OUT/start" ]; then
  cp -r "$MODEL" "$OUT/start"
  sed -i 's/"num_hidden_layers": [0-9]*/"num_hidden_layers": 2/' "$OUT/start/config.json"
fi

# 3. Half of the loss is the cosine with the teacher's vector, half the error of the cosine of two sentences.
cp "$DEV" "$OUT/dev.jsonl"
cat > "$OUT/near.toml" <<'END'
name = "near"
kind = "similarity"
score_range = [0, 1]

[files]
train = "pairs.jsonl"
dev = "dev.jsonl"

[columns]
text = "text"
text_pair = "text_pair"
label = "score"
END
"$litebert" finetune "$OUT/near.toml" --model "$OUT/start" --teacher "$VECTORS" --teacher-weight 0.5 --out "$OUT/run" \
  --epochs "$EPOCHS" --batch-size 64 --lr 2e-3 --eval-every-steps 200 --threads 1 --resume auto \
  --baseline words,untrained --precision "${PRECISION:-auto}"

[ -z "${SHIP:-}" ] || "$python" tools/bundle_sentences.py "$OUT/run" --data "${DATA:?set DATA to what the sentences are}" \
  ${TEACHER_SPEARMAN:+--teacher-spearman "$TEACHER_SPEARMAN"}
