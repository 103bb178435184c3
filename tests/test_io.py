"""Tables in files, and files that appear whole or not at all."""

from __future__ import annotations

import errno
import gzip
import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.feather as feather
import pytest

from missdiff_fast.errors import DataWarning
from missdiff_fast.table import read_table, write_table
from missdiff_fast.table.atomic import write_atomically

FRAME = pd.DataFrame(
    {
        "n": pd.array([1, None, 3], dtype="Int64"),
        "x": [0.1, 2.5, np.nan],
        "s": ["a, b", None, 'q"é'],
        "d": pd.to_datetime(["2020-01-01", None, "2021-05-06"]),
        "b": [True, False, True],
    }
)
TEXT = [f"t{base}{pack}" for base in (".csv", ".tsv", ".psv", ".txt", ".data") for pack in ("", ".gz", ".zip")]


@pytest.mark.parametrize("name", [*TEXT, "t.csv.bz2", "t.csv.xz", "t.csv.zst", "T.CSV.GZ"])
def test_text_comes_back(tmp_path: Path, name: str) -> None:
    write_table(FRAME.set_index(pd.Index([7, 8, 9])), tmp_path / name)
    expected = FRAME.astype({"n": "float64"}).assign(s=["a, b", np.nan, 'q"é'])
    pd.testing.assert_frame_equal(read_table(tmp_path / name), expected)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.arrow"])
def test_binary_comes_back_with_its_dtypes(tmp_path: Path, name: str) -> None:
    frame = FRAME.assign(
        c=pd.Categorical(["u", None, "v"], categories=["v", "u", "w"], ordered=True),
        z=FRAME["d"].dt.tz_localize("Asia/Tokyo"),
    )
    write_table(frame.set_index(pd.Index([7, 8, 9])), tmp_path / name)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), frame)
    marked = read_table(str(tmp_path / name), missing_values=["a, b", 0.1, "v"])
    assert marked["s"].isna().tolist() == [True, True, False]
    assert marked["x"].isna().tolist() == [True, False, True]
    assert marked["c"].isna().tolist() == [False, True, True]


def write_with_index(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        feather.write_feather(frame, str(path))  # pandas' own writer refuses an index


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
def test_an_index_becomes_columns(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"pid": ["p3", "p1"], "day": pd.to_datetime(["2024-01-01", "2024-02-29"]), "x": [1.0, 2.0]})
    for keys in (["pid"], ["day"], ["pid", "day"]):
        write_with_index(frame.set_index(keys), tmp_path / name)
        read = read_table(tmp_path / name, missing_values=["p1"])
        rest = [column for column in frame.columns if column not in keys]
        pd.testing.assert_frame_equal(read, frame.mask(frame == "p1")[keys + rest])
    write_with_index(frame[["x"]].rename_axis("row"), tmp_path / name)
    assert read_table(tmp_path / name)["row"].tolist() == [0, 1]


@pytest.mark.filterwarnings("error")
def test_an_index_without_a_name_is_kept_with_a_warning_where_it_tells_anything(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "index": [7, 8, 9]})
    frame[1:].to_parquet(path)  # a range, which numbers the rows
    assert list(read_table(path).columns) == ["x", "index"]
    frame.set_axis(["p3", "p1", "p2"])[["x"]].to_parquet(path)
    with pytest.warns(
        UserWarning, match=r"t\.parquet: the index has no name and is taken for a column, 'index'.*index=False"
    ):
        read = read_table(path)
    assert read.to_dict("list") == {"index": ["p3", "p1", "p2"], "x": [1.0, 2.0, 3.0]}
    assert read.index.equals(pd.RangeIndex(3))
    frame.set_axis(["p3", "p1", "p2"]).to_parquet(path)
    with pytest.raises(
        ValueError, match=r"t\.parquet: the index is called 'index', and so is a column: name one of them"
    ):
        read_table(path)


def test_an_index_called_as_a_column_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"pid": [5, 6]}, index=pd.Index(["a", "b"], name="pid")).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(
        ValueError, match=r"t\.parquet: the index is called 'pid', and so is a column: name one of them"
    ):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("dtype", ["int64", "Int64", "int64[pyarrow]"])
def test_large_integers_are_marked_one_by_one(tmp_path: Path, dtype: str) -> None:
    column = pd.Series([2**53, 2**53 + 1, 2**53 + 2, -9], dtype=dtype)
    write_table(pd.DataFrame({"n": column}), tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet", missing_values=[2**53 + 1, -9.0, 2**70, -np.inf])["n"]
    assert read.tolist() == [2**53, pd.NA, 2**53 + 2, pd.NA]
    small = pd.DataFrame({"x": np.array([0.1, 0.2], dtype=np.float32), "n": [1, 2]})
    write_table(small, tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet", missing_values=[0.1, 1])
    assert read.isna().to_numpy().tolist() == [[True, True], [False, False]]
    assert [str(kind) for kind in read.dtypes] == ["float32", "float64"]


@pytest.mark.parametrize("values", [[None, "a", None, "b", None], [np.nan, 1.5, np.nan, np.nan]])
def test_one_column_comes_back_with_its_holes(tmp_path: Path, values: list[object]) -> None:
    frame = pd.DataFrame({"x": values})
    write_table(frame, tmp_path / "t.csv")
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv"), frame.fillna(np.nan))


def test_text_is_plain(tmp_path: Path) -> None:
    write_table(FRAME, tmp_path / "t.csv")
    expected = 'n,x,s,d,b\n1,0.1,"a, b",2020-01-01,True\n,2.5,,,False\n3,,"q""é",2021-05-06,True\n'
    assert (tmp_path / "t.csv").read_bytes().decode() == expected
    write_table(pd.DataFrame({0: [1], "a": [2]}), tmp_path / "t.parquet")
    assert list(read_table(tmp_path / "t.parquet").columns) == ["0", "a"]


@pytest.mark.parametrize("name", ["t.xls", "t", "t.gz", "t.parquet.gz", "t.csv.lz4", "t.pickle"])
def test_unknown_kinds(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"a\n1\0\n")
    for call in (lambda path: read_table(path), lambda path: write_table(FRAME, path)):
        with pytest.raises(ValueError, match=r"not known \(known are \.csv, .*\.parquet.*\.gz"):
            call(tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"a\n1\0\n"


def test_arff_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"t.arff: .arff files are read, not written"):
        write_table(FRAME, tmp_path / "t.arff")


def test_no_such_file_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none.csv does not exist: check the path"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_table(tmp_path / "folder.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_table(FRAME, tmp_path / "folder.csv")
    with pytest.raises(FileNotFoundError, match=r"folder .*deep does not exist: make it first"):
        write_table(FRAME, tmp_path / "deep" / "t.csv")


@pytest.mark.parametrize(
    "name", ["t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.csv.zip", "t.csv.zst", "t.parquet", "t.feather"]
)
def test_damaged_files(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).random((500, 3)), columns=list("abc"))
    write_table(frame, tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for data in (whole[: len(whole) // 2], b"no such thing at all"):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=f"{name} is damaged, cut short or not what its name says"):
            read_table(tmp_path / name)


def test_zip_of_two_files(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
        archive.writestr("b.csv", "a\n1\n")
    with pytest.raises(ValueError, match="holds 2 files instead of one"):
        read_table(tmp_path / "t.csv.zip")


def test_a_table_that_the_kind_of_file_can_not_hold(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("old")
    with pytest.raises(ValueError, match=r"a \.parquet file can't hold this table"):
        write_table(pd.DataFrame({"x": pd.Series([1, "a", 2.5], dtype=object)}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").read_text() == "old"
    assert os.listdir(tmp_path) == ["t.parquet"]


def test_atomic_replacement(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_text("old")
    target.chmod(0o640)
    with write_atomically(target) as temporary:
        temporary.write_text("new")
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".bin"
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["out.bin"]


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), RuntimeError("stop"), OSError(errno.ENOSPC, "No space left on device")]
)
@pytest.mark.parametrize("old", [True, False])
def test_failure_leaves_nothing_behind(tmp_path: Path, error: BaseException, old: bool) -> None:
    target = tmp_path / "out.csv"
    if old:
        target.write_text("old")
    with pytest.raises(type(error)) as caught:
        write_and_fail(target, error)
    assert os.listdir(tmp_path) == (["out.csv"] if old else [])
    assert not old or target.read_text() == "old"
    if isinstance(error, OSError):
        assert isinstance(caught.value, OSError)
        assert caught.value.errno == errno.ENOSPC
        assert f"could not write {target}: No space left on device" in str(caught.value)
        assert ("the file that was there is unchanged" in str(caught.value)) == old


def write_and_fail(target: Path, error: BaseException) -> None:
    with write_atomically(target) as temporary:
        temporary.write_text("half")
        raise error


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.zip", "t.parquet"])
def test_disk_full_while_writing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"could not write .*{name}: No space left on device; the file that was there"):
        write_table(FRAME, tmp_path / name)
    assert (tmp_path / name).read_text() == "old"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_is_written_to_and_stays() -> None:
    with pytest.raises(OSError, match="No space left"):
        write_table_to_device(Path("/dev/full"))
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def write_table_to_device(path: Path) -> None:
    with write_atomically(path) as temporary:
        assert temporary == path
        with open(temporary, "w") as stream:
            stream.write("x" * 100_000)


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "data" / "real.csv")
    write_table(pd.DataFrame({"a": [1]}), tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "data" / "real.csv").read_text() == "a\n1\n"


@pytest.mark.parametrize("kind", [*TEXT, "t.csv.bz2", "t.csv.xz", "t.csv.zst", "t.parquet", "t.feather"])
def test_names_that_are_not_utf_8(tmp_path: Path, kind: str) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xe9")).with_name(f"\udce9{kind}")
    write_table(FRAME[["x", "b"]], path)
    pd.testing.assert_frame_equal(read_table(path), FRAME[["x", "b"]], check_dtype=False)


@pytest.mark.parametrize("name", ["😀" * 62 + ".csv", "a." + "b" * 253])
def test_the_longest_names(tmp_path: Path, name: str) -> None:
    with write_atomically(tmp_path / name) as temporary:
        temporary.write_text("new")
    assert (tmp_path / name).read_text() == "new"


def test_compressed_text_is_what_it_says(tmp_path: Path) -> None:
    write_table(pd.DataFrame({"a": [1]}), tmp_path / "t.csv.gz")
    assert gzip.decompress((tmp_path / "t.csv.gz").read_bytes()) == b"a\n1\n"


REAL = {
    "adult/adult.data.gz": ((32561, 15), {"header": False, "missing_values": ["?"]}),
    "air_quality/AirQualityUCI.csv.gz": ((9357, 15), {"missing_values": [-200]}),
    "credit_default/default_of_credit_card_clients.csv.gz": ((30000, 25), {"skip_rows": 1}),
    "diabetes130/diabetic_data.csv.gz": ((101766, 50), {"missing_values": ["?"]}),
    "mimic4_demo/admissions_wide_derived.csv.gz": ((275, 71), {}),
    "support2/support2.csv.gz": ((9105, 48), {}),
    "uci_clinical_small/hcc-data.txt": ((165, 50), {"missing_values": ["?"]}),
    "uci_clinical_small/breast-cancer-wisconsin.data": ((699, 11), {"header": False, "missing_values": ["?"]}),
    "ugly_small/SeoulBikeData_bom_utf8.csv": ((8760, 14), {}),
    "ugly_small/SeoulBikeData_latin1.csv": ((8760, 15), {}),
    "ugly_small/titanic3.csv": ((1309, 14), {}),
    "ugly_small/wdbc_kaggle.csv": ((569, 32), {}),
}


@pytest.mark.filterwarnings("ignore:.*dropped:UserWarning")
@pytest.mark.parametrize("name", REAL)
def test_real_files(real_data: Path, name: str) -> None:
    shape, options = REAL[name]
    frame = read_table(real_data / name, **options)  # type: ignore[arg-type]
    assert frame.shape == shape
    assert not frame.isna().all(axis=1).any()
    if name.startswith("air"):
        assert frame["AH"].dtype == "float64"
        assert frame["AH"].min() > 0
    if "Seoul" in name:
        assert "Temperature(°C)" in frame.columns
    if name.startswith("diabetes"):
        assert "None" in set(frame["A1Cresult"])


def test_a_real_ragged_file(real_data: Path) -> None:
    with pytest.warns(DataWarning, match="line 371: 26 fields where the header has 25: no row is read of this line"):
        frame = read_table(real_data / "uci_clinical_small" / "kidney_disease_raw_ragged.csv")
    assert frame.shape == (399, 25)
