"""Print the test files that use a device and can be collected here; on stderr, those that lack a package.

PYTHONPATH=.:bench python bench/gpu/pick_tests.py [FOLDER]
"""

from __future__ import annotations

import ast
import re
import sys
from importlib.util import find_spec
from pathlib import Path

TESTS = Path(__file__).parent.parent.parent / "tests"
_CONCERNS = re.compile(r"\bdevice\b|\bcuda\b")


def absent(path: Path) -> list[str]:
    """Packages that a file, or a module beside it that it imports, needs and that are not installed."""
    found: set[str] = set()
    seen, ahead = set(), [path]
    while ahead:
        file = ahead.pop()
        seen.add(file)
        for name in _imports(file):
            beside = path.parent / f"{name}.py"
            if beside.exists():
                ahead += [beside] if beside not in seen else []
            elif find_spec(name) is None:
                found.add(name)
    return sorted(found)


def _imports(path: Path) -> set[str]:
    """The packages that a module imports when it is itself imported."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def pick(folder: Path) -> tuple[list[Path], dict[Path, list[str]]]:
    """The files to run, and those left out with what they lack."""
    files = [path for path in sorted(folder.glob("test_*.py")) if _CONCERNS.search(path.read_text(encoding="utf-8"))]
    lacking = {path: names for path in files if (names := absent(path))}
    return [path for path in files if path not in lacking], lacking


def main() -> None:
    """Print them."""
    files, lacking = pick(Path(sys.argv[1]) if len(sys.argv) > 1 else TESTS)
    for path, names in lacking.items():
        print(f"left out: {path.name}, which needs {', '.join(names)}", file=sys.stderr)
    print("\n".join(map(str, files)))


if __name__ == "__main__":
    main()
