"""Model files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from missdiff_fast._engine import checkpoint

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, -1], dtype=torch.int64)}
META = {"name": "é", "values": [1, None, "x"]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.missdiff"
    checkpoint.write(path, META, TENSORS)
    return path


def test_round_trip(file: Path) -> None:
    meta, tensors = checkpoint.read(file)
    assert meta == META
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_the_same_model_gives_the_same_bytes(file: Path) -> None:
    for _ in range(10):
        checkpoint.write(file.parent / "again", META, dict(reversed(TENSORS.items())))
        assert (file.parent / "again").read_bytes() == file.read_bytes()


def test_other_readers_take_the_file(file: Path) -> None:
    tensors = load_file(file)
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_a_description_that_is_too_long_for_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_MOST_IN_HEADER", 1000)
    path, meta = tmp_path / "m", META | {"long": "é" * 1000}
    checkpoint.write(path, meta, TENSORS)
    assert int.from_bytes(path.read_bytes()[:8], "little") < 1000
    found, tensors = checkpoint.read(path)
    assert found == meta
    assert tensors.keys() == TENSORS.keys()
    whole = path.read_bytes()
    place = whole.index(b"u00e9")
    for byte in (b"x", b"\xff"):
        path.write_bytes(whole[:place] + byte + whole[place + 1 :])
        with pytest.raises(ValueError, match="damaged"):
            checkpoint.read(path)


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/m\xe9.missdiff"))
    checkpoint.write(path, META, TENSORS)
    assert checkpoint.read(path)[0] == META


def test_others_may_read_it_as_any_new_file(file: Path) -> None:
    (file.parent / "plain").write_text("")
    assert file.stat().st_mode == (file.parent / "plain").stat().st_mode


def test_views_and_transposes_are_written_as_they_read(tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "m", {}, {"t": TENSORS["a"].T, "row": TENSORS["a"][1]})
    tensors = checkpoint.read(tmp_path / "m")[1]
    assert torch.equal(tensors["t"], TENSORS["a"].T)
    assert torch.equal(tensors["row"], TENSORS["a"][1])


@pytest.mark.parametrize("keep", [0, 4, 40, -1])
def test_truncated(file: Path, keep: int) -> None:
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match="no readable model: truncated, or not written by missdiff_fast"):
        checkpoint.read(file)


def test_a_changed_byte_is_found_wherever_it_is(file: Path) -> None:
    whole = file.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        file.write_bytes(changed)
        try:
            read = checkpoint.read(file)
        except ValueError:
            continue
        # Details that do not matter, such as the case of a letter in the header's padding, may differ.
        assert read[0] == META, place
        assert all(torch.equal(read[1][name], TENSORS[name]) for name in TENSORS), place


def test_changed_weights(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[-1] ^= 1
    file.write_bytes(whole)
    with pytest.raises(ValueError, match="is damaged: its contents are not those that were written"):
        checkpoint.read(file)


def test_foreign(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n" * 100)
    with pytest.raises(ValueError, match=r"x\.csv is no readable model"):
        checkpoint.read(tmp_path / "x.csv")
    save_file(TENSORS, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="holds tensors, but no missdiff_fast model"):
        checkpoint.read(tmp_path / "other.safetensors")


@pytest.mark.parametrize("version", ["1", "99"])
def test_other_format(tmp_path: Path, version: str) -> None:
    save_file(TENSORS, tmp_path / "m", metadata={"format": "missdiff_fast model", "version": version, "model": "{}"})
    with pytest.raises(ValueError, match=f"written in model format {version}; this missdiff_fast reads format 5"):
        checkpoint.read(tmp_path / "m")


def test_damaged_description(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "m", metadata={"format": "missdiff_fast model", "version": "5", "model": "{"})
    with pytest.raises(ValueError, match="its description is damaged"):
        checkpoint.read(tmp_path / "m")


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no model file at"):
        checkpoint.read(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="no model file at"):
        checkpoint.read(tmp_path)


def test_a_full_disk_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.write(file, {}, {})
    assert checkpoint.read(file)[0] == META
    assert [path.name for path in file.parent.iterdir()] == [file.name]
