"""Answer a question from a passage with an ONNX folder alone: onnxruntime, no torch.

    litebert finetune squad1 --model MODEL --data squad --out runs/squad
    litebert export onnx runs/squad/model squad-int8 --int8
    python examples/answer_with_onnx.py squad-int8 passage.txt "Who wrote it?"

On the machine that answers, litebert with its extra `onnx` is enough.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from litebert import Predictor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a folder that `litebert export onnx` wrote")
    parser.add_argument("passage", type=Path, help="a text file")
    parser.add_argument("question", nargs="+", help="one or more questions")
    options = parser.parse_args()
    context = options.passage.read_text(encoding="utf-8")
    predictor = Predictor.load(options.model, runtime="onnx")
    answers = predictor.predict({"question": q, "context": context} for q in options.question)
    for question, answer in zip(options.question, answers, strict=True):
        print(f"{question}  ->  {answer['answer']}")
        best = answer["best"]
        assert isinstance(best, list)
        for span in best[:3]:
            print(f"    {span['score']:6.1%}  {span['text']!r} at {span['start']}")
    if "torch" in sys.modules:
        raise RuntimeError("torch was imported, though nothing here needs it")


if __name__ == "__main__":
    main()
