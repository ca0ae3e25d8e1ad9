"""Write docs/exactness.md from what the parity tests recorded in build/exactness/."""

from __future__ import annotations

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


def page() -> str:
    """Return the page, one row a reference."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in RECORDS.glob("*.json")]
    rows = sorted(
        f"| {record['reference']} | {record['max_difference']:.2g} | `{record['command']}` |"
        for record in records
    )
    return INTRODUCTION + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
