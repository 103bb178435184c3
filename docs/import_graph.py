"""Draws which part of the package imports which, as an SVG.

    python docs/import_graph.py build/imports.svg

A part is a module or a package directly in missdiff_fast. It stands above everything that it imports; a red line is an
import that leads upwards, in a circle.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import grimp

PACKAGE = "missdiff_fast"
_WIDTH, _HEIGHT, _GAP, _ROW = 130, 30, 24, 90


def parts() -> dict[str, set[str]]:
    """The parts that each part imports."""
    graph = grimp.build_graph(PACKAGE)
    imports: dict[str, set[str]] = {}
    for module in graph.modules - {PACKAGE}:
        found = imports.setdefault(module.split(".")[1], set())
        found |= {name.split(".")[1] for name in graph.find_modules_directly_imported_by(module) if name != PACKAGE}
    return {part: imported - {part} for part, imported in sorted(imports.items())}


def rows(imports: dict[str, set[str]]) -> list[list[str]]:
    """The parts from top to bottom: each row imports only of those below; a circle is cut where it is entered."""
    depth: dict[str, int] = {}

    def visit(part: str, path: tuple[str, ...]) -> int:
        if part not in depth:
            below = [visit(name, (*path, part)) for name in sorted(imports[part]) if name not in path]
            depth[part] = 1 + max(below, default=-1)
        return depth[part]

    for part in imports:
        visit(part, ())
    return [[part for part in imports if depth[part] == level] for level in range(max(depth.values()), -1, -1)]


def draw(imports: dict[str, set[str]]) -> str:
    """The SVG."""
    layout = rows(imports)
    width = max(len(row) for row in layout) * (_WIDTH + _GAP) + _GAP
    place = {}
    for level, row in enumerate(layout):
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) / 2
        place |= {part: (left + k * (_WIDTH + _GAP), _GAP + level * _ROW) for k, part in enumerate(row)}
    lines, boxes = [], []
    for part, (x, y) in place.items():
        for name in sorted(imports[part]):
            to_x, to_y = place[name]
            colour = "#999" if to_y > y else "#d00"
            start, end = (x + _WIDTH / 2, y + _HEIGHT), (to_x + _WIDTH / 2, to_y)
            curve = f"M{start[0]} {start[1]}C{start[0]} {start[1] + 40} {end[0]} {end[1] - 40} {end[0]} {end[1]}"
            lines.append(f'<path d="{curve}" fill="none" stroke="{colour}"><title>{part} imports {name}</title></path>')
        boxes.append(
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="#eef3f8" stroke="#0072B2"/>'
        )
        boxes.append(f'<text x="{x + _WIDTH / 2}" y="{y + 20}" text-anchor="middle">{part}</text>')
    size = f'viewBox="0 0 {width} {len(layout) * _ROW}" width="{width}"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">'
    return "\n".join([start, '<rect width="100%" height="100%" fill="#fff"/>', *lines, *boxes, "</svg>\n"])


def main() -> None:
    """Write the drawing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the SVG file to write")
    output = parser.parse_args().output
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(draw(parts()), encoding="utf-8")
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
