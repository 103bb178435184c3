"""The code of README.md and docs/ runs as printed, with fewer training steps; links and commands are real."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from missdiff_fast.cli import build_parser
from missdiff_fast.model import MissDiff

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A block of code, and the reason not to run it in the line above, if there is one.
_BLOCK = re.compile(r"^(?:<!-- not run: (?P<reason>.+) -->\n)?```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^ {4}(?:\$ )?missdiff ([a-z].*)$", re.MULTILINE)

_SMALL = {"blend.rows_per_feature": 0, "calibration.rounds": 0}  # settings of small models


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[str]:
    """The code to run."""
    return [found["code"] for found in _BLOCK.finditer(page.read_text(encoding="utf-8")) if not found["reason"]]


def resolve(name: str) -> object:
    """The module, or the attribute of one, of this dotted name; AttributeError if it does not exist."""
    parts = name.split(".")
    found: object = importlib.import_module(parts[0])
    for k, part in enumerate(parts[1:], 2):
        if not hasattr(found, part) and isinstance(found, ModuleType):
            with contextlib.suppress(ImportError):
                importlib.import_module(".".join(parts[:k]))
        found = getattr(found, part)
    return found


def run(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The names that the page's code leaves, run in one go with models of ten steps, unrefined and not calibrated."""
    monkeypatch.chdir(folder)
    for name, small in {"steps": 10, "width": 32, "refine": 0, "settings": _SMALL}.items():
        monkeypatch.setitem(MissDiff.__init__.__kwdefaults__, name, small)
    names: dict[str, object] = {}
    for code in blocks(page):
        code = code.replace('budget="20s"', "steps=10")  # a budget and steps would both set the length
        code = re.sub(r"\bsteps=\d{3,}", "steps=10", code).replace("refits=5", "refits=2")
        code = code.replace("settings={", f"settings={{**{_SMALL}, ")
        exec(compile(code, name_of(page), "exec"), names)
    return names


# The README's has a test of its own.
@pytest.mark.parametrize("page", [page for page in PAGES[1:] if blocks(page)], ids=name_of)
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "sklearn" in page.read_text(encoding="utf-8"):
        pytest.importorskip("sklearn")
    assert run(page, tmp_path, monkeypatch)


def test_readme_code_does_what_the_readme_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(ROOT / "README.md", tmp_path, monkeypatch)
    table, synthetic, older, filled = (names[name] for name in ("table", "synthetic", "older", "filled"))
    assert isinstance(table, pd.DataFrame)
    assert isinstance(synthetic, pd.DataFrame)
    assert isinstance(older, pd.DataFrame)
    assert isinstance(filled, pd.DataFrame)
    assert synthetic.shape == (16_000, 15)
    assert set(older["sex"]) == {"Female"}
    assert set(older["age"]) == {70}
    assert not filled.isna().to_numpy().any()
    observed = table.notna().to_numpy()
    assert (filled.to_numpy(object)[observed] == table.to_numpy(object)[observed]).all()
    assert (tmp_path / "census.missdiff").is_file()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_python_block_is_found(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"```\s*\{?\.?py", text)) == len(_BLOCK.findall(text))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


# The profile in benchmarks.md has the names of the time when it was measured.
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "benchmarks.md"], ids=name_of)
def test_names_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = re.findall(r"`(missdiff_fast(?:\.\w+)+)", text)
    if page.name == "paper-to-code.md":
        names += [f"missdiff_fast.{name}" for name in re.findall(r"`([a-z_]+(?:\.\w+)+)", text) if "csv" not in name]
        names = [name for name in names if not name.endswith("adult_trim.data")]
    names = [name.replace("missdiff_fast.missdiff_fast", "missdiff_fast") for name in names]
    for name in names:
        resolve(name)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_have_the_options_shown(page: Path) -> None:
    parser = build_parser()
    for line in _COMMAND.findall(page.read_text(encoding="utf-8")):
        command = re.split(r" [|>] ", line)[0]
        parser.parse_args(shlex.split(command, comments=True))  # exits, and so fails, on an unknown option


def test_command_line_reference_is_that_of_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    script = ROOT / "docs" / "command_line.py"
    spec = importlib.util.spec_from_file_location("command_line", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "command_line", module)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.render(), f"run {script.relative_to(ROOT)}"


@pytest.mark.parametrize("name", ["baselines", "config", "datasets", "evaluate", "missingness", "ops", "ops.reference"])
def test_reference_names_what_a_module_of_the_same_name_hides(name: str) -> None:
    """Where a package exports a function of a module with its name, the site finds the module alone."""
    package = importlib.import_module(f"missdiff_fast.{name}")
    page = (ROOT / "docs" / "reference" / f"{name.replace('.', '-')}.md").read_text(encoding="utf-8")
    names = [exported for exported in package.__all__ if f"{package.__name__}.{exported}" in sys.modules]
    assert [exported for exported in names if f"::: {package.__name__}.{exported}.{exported}\n" not in page] == []
