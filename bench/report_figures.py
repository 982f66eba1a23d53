"""Bar charts as SVG text. By hand: a few rectangles need no plotting library, and diffs stay readable."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT, _ROW, _HEAD = 760, 260, 110, 26, 48
_OURS, _OTHERS, _WORSE = "#2563eb", "#9ca3af", "#d97706"


def bars(title: str, rows: Sequence[tuple[str, float, str]], *, ours: str) -> str:
    """One bar for each row (name, figure, label), on a logarithmic scale that starts a decade below the least."""
    low = 10 ** math.floor(math.log10(min(figure for _, figure, _ in rows)) - 0.001)
    span = math.log10(max(figure for _, figure, _ in rows) / low)
    parts = []
    for index, (name, figure, label) in enumerate(rows):
        length = _inner() * math.log10(figure / low) / span
        color = _OURS if name == ours else _OTHERS
        parts.append(_row(index, name, _LEFT, length, color, label, _LEFT + length + 6))
    return _document(f"{title} (logarithmic)", parts, len(rows))


def ratios(title: str, rows: Sequence[tuple[str, float]]) -> str:
    """Bars to the left of 1 for what became less, to the right for what became more; logarithmic."""
    reach = max(1.0, *(abs(math.log10(ratio)) for _, ratio in rows))
    middle, half = _LEFT + _inner() / 2, _inner() / 2
    parts = [
        f'<line x1="{middle:.1f}" y1="{_HEAD - 8}" x2="{middle:.1f}" y2="{_HEAD + _ROW * len(rows)}" stroke="#374151"/>'
    ]
    for index, (name, ratio) in enumerate(rows):
        length = half * abs(math.log10(ratio)) / reach
        start = middle - length if ratio < 1 else middle
        label_at = middle + 6 if ratio < 1 else middle + length + 6
        parts.append(_row(index, name, start, length, _OURS if ratio < 1 else _WORSE, f"{ratio:.2g} ×", label_at))
    return _document(f"{title} (logarithmic)", parts, len(rows))


def _inner() -> int:
    return _WIDTH - _LEFT - _RIGHT


def _row(index: int, name: str, start: float, length: float, color: str, label: str, label_at: float) -> str:
    top = _HEAD + index * _ROW
    return (
        f'<text x="{_LEFT - 8}" y="{top + 15}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{start:.1f}" y="{top + 3}" width="{max(length, 1):.1f}" height="{_ROW - 8}" fill="{color}"/>'
        f'<text x="{label_at:.1f}" y="{top + 15}">{escape(label)}</text>'
    )


def _document(title: str, parts: Sequence[str], rows: int) -> str:
    height = _HEAD + _ROW * rows + 12
    body = "\n".join(parts)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12" \
fill="#111827" role="img" aria-label="{escape(title, {'"': "&quot;"})}">
<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>
<text x="12" y="24" font-size="14" font-weight="bold">{escape(title)}</text>
{body}
</svg>
"""
