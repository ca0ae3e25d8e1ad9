"""What every report page shares: look, tiles, events, settings."""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from litebert.report.log import Record, number

_STYLE = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2024; --dim: #68707a; --line: #dfe3e8;
  --card: #f6f7f9; --c1: #2563eb; --c2: #d9480f; --c3: #2b8a3e; --c4: #9c36b5; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171b; --fg: #e6e9ed; --dim: #98a2ad;
  --line: #333a43; --card: #1d2228; --c1: #6ea8fe; --c2: #ff922b; --c3: #69db7c; --c4: #da77f2; } }
* { box-sizing: border-box; }
body { background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif;
  margin: 0 auto; max-width: 1200px; padding: 24px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 17px; margin: 32px 0 8px; }
.dim { color: var(--dim); }
.tiles { display: grid; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr));
  margin-top: 16px; }
.tiles div { background: var(--card); border-radius: 8px; padding: 10px 14px; }
.tiles b { display: block; font-size: 22px; } .tiles span { color: var(--dim); font-size: 13px; }
.charts { display: grid; gap: 20px;
  grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); }
figure { margin: 0; } figcaption { font-weight: 600; margin-bottom: 4px; }
svg { display: block; height: auto; width: 100%; }
svg text { fill: var(--dim); font: 11px system-ui, sans-serif; }
.legend { display: flex; flex-wrap: wrap; font-size: 13px; gap: 4px 14px; }
.legend i { border-radius: 2px; display: inline-block; height: 3px; margin-right: 5px;
  vertical-align: middle; width: 16px; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid var(--line); padding: 4px 10px 4px 0; text-align: left;
  vertical-align: top; }
td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
td.t { white-space: pre-line; }
table.narrow, table.confusion { width: auto; }
.narrow td, .narrow th { padding-right: 28px; } .confusion td, .confusion th { padding: 6px 14px; }
.columns { display: flex; flex-wrap: wrap; gap: 0 64px; }
.wide { overflow-x: auto; }
mark { background: none; border-bottom: 2px solid var(--c2); color: inherit; font-weight: 600; }
pre { background: var(--card); border-radius: 8px; overflow: auto; padding: 12px; }
"""


def page(title: str, subtitle: str, parts: Sequence[str]) -> str:
    """A whole page that needs nothing from outside; its parts are HTML, empty ones are left out."""
    name = html.escape(title)
    body = [f"<h1>{name}</h1>", f'<p class="dim">{html.escape(subtitle)}</p>', *parts]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{_STYLE}</style></head><body>"
        + "\n".join(part for part in body if part)
        + "</body></html>\n"
    )


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(headings)} |", f"|{' --- |' * len(headings)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def side_by_side(kind: Literal["tiles", "columns", "charts"], parts: Sequence[str]) -> str:
    """Parts beside each other; empty ones are left out."""
    kept = "".join(f"<div>{part}</div>" for part in parts if part)
    return f'<div class="{kind}">{kept}</div>' if kept else ""


def tiles(figures: Sequence[tuple[str, str]]) -> str:
    """Large figures with a small label each."""
    shown = [(html.escape(value), html.escape(label)) for value, label in figures]
    return side_by_side("tiles", [f"<b>{value}</b><span>{label}</span>" for value, label in shown])


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    numeric: Collection[int] = (),
    narrow: bool = False,
) -> str:
    """A table of plain texts, or nothing without rows; line breaks in them are kept.

    ``[MASK]`` stands out; headings that are all empty are not drawn; figures of ``numeric`` columns
    stand below each other; a ``narrow`` table is as wide as its content, not as the page.
    """
    if not rows:
        return ""
    lines = ["".join(f"<th>{html.escape(name)}</th>" for name in headings)] if any(headings) else []
    for row in rows:
        cells = (html.escape(cell).replace("[MASK]", "<mark>[MASK]</mark>") for cell in row)
        kinds = ("n" if place in numeric else "t" for place in range(len(row)))
        shown = zip(kinds, cells, strict=True)
        lines.append("".join(f'<td class="{kind}">{cell}</td>' for kind, cell in shown))
    above = f"<h2>{html.escape(title)}</h2>" if title else ""
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    style = ' class="narrow"' if narrow else ""
    return f'{above}<div class="wide"><table{style}>{body}</table></div>'


def events_table(records: Sequence[Record], leave_out: Collection[str] = ()) -> str:
    """What happened while the run went on, such as a resume or a damaged checkpoint."""
    events = [r for r in records if "event" in r and r["event"] not in leave_out]
    shown = [e for e in events if e["event"] != "nonfinite"]
    rows = [(f"{number(e, 'step'):,.0f}", str(e["event"]), str(e.get("message", ""))) for e in shown]
    if len(shown) < len(events):
        rows.append(("", "nonfinite", f"{len(events) - len(shown)} steps not updated"))
    return table(("step", "", ""), rows, title="Events", numeric=(0,))


def settings(manifest: Record) -> str:
    """Everything that decided the run, folded away."""
    keys = ("config", "fingerprints", "seeds", "versions", "machine", "commit", "argv")
    shown = _without_nulls({key: manifest.get(key) for key in keys})
    text = html.escape(json.dumps(shown, indent=2, ensure_ascii=False))
    return f"<h2>Settings</h2><details><summary>everything</summary><pre>{text}</pre></details>"


def _without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value
