"""Write docs/exactness.md from what the parity tests recorded in build/exactness/."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
RECORDS = REPOSITORY / "build" / "exactness"
PAGE = REPOSITORY / "docs" / "exactness.md"

INTRODUCTION = """# Exactness

How far litebert is from each reference, as the parity tests measured it: the largest absolute
difference, or the number of differing lines where ids or figures are compared. Written by
`make exactness`, which runs these tests; references that are not part of the repository are
looked for in the folder that `LITEBERT_SHARED` names.

| reference | difference | command |
| --- | --- | --- |
"""


def page(records: Path) -> str:
    """Return the page, one row a reference.

    Args:
        records: folder of the files that the parity tests write.
    """
    found = [json.loads(path.read_text(encoding="utf-8")) for path in records.glob("*.json")]
    if not found:
        raise SystemExit(f"{records} holds no records: run the parity tests (`make exactness`)")
    rows = sorted(
        f"| {record['reference']} | {record['max_difference']:.2g} | `{record['command']}` |" for record in found
    )
    return INTRODUCTION + "\n".join(rows) + "\n"


def main() -> None:
    """Command line; `make exactness` calls it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=Path, default=RECORDS, help="what the tests wrote")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    options = parser.parse_args()
    options.out.write_text(page(options.records), encoding="utf-8")


if __name__ == "__main__":
    main()
