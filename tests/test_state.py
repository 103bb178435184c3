"""A codec written as JSON and tensors, and read back."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from frames import encode, every_dtype, fit_codec, through
from safetensors.torch import load, save
from torch import Tensor

from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast.table import Codec
from missdiff_fast.table.state import read_state


def there_and_back(codec: Codec) -> Codec:
    meta, tensors = codec.state()
    return Codec.from_state(json.loads(json.dumps(meta, allow_nan=False)), load(save(tensors)), ops=ReferenceBackend())


def test_every_dtype_is_remembered() -> None:
    frame = pd.DataFrame(every_dtype())
    frame["constant"] = 5
    frame[7] = pd.Series([2**63 + i for i in range(8)], dtype="uint64")
    codec = fit_codec(frame, missing_values=["?", -200, 0.5, np.inf])
    again = there_and_back(codec)
    assert again.schema == codec.schema
    assert again.layout == codec.layout
    assert torch.equal(again.boundaries, codec.boundaries)
    assert torch.equal(again.starts, codec.starts)
    one, two = encode(codec, frame, seed=4), encode(again, frame, seed=4)
    assert torch.equal(one.continuous.nan_to_num(), two.continuous.nan_to_num())
    assert torch.equal(one.codes, two.codes)
    assert torch.equal(one.values.nan_to_num(), two.values.nan_to_num())
    pd.testing.assert_frame_equal(through(again, two), through(codec, one), check_exact=True)
    means = [c.decode_means(one.values.nan_to_num(), one.codes.clamp(min=0)) for c in (codec, again)]
    pd.testing.assert_frame_equal(means[0], means[1], check_exact=True)
    assert again._markers == codec._markers


def test_string_dtype_with_nan_is_remembered() -> None:
    try:
        dtype = pd.StringDtype("python", na_value=np.nan)
    except TypeError:
        pytest.skip("before pandas 2.3 no StringDtype has NaN")
    codec = fit_codec(pd.DataFrame({"x": pd.Series(["a", None, "b"], dtype=dtype)}))
    assert there_and_back(codec).schema["x"].dtype.na_value is np.nan


@pytest.fixture
def state() -> tuple[dict[str, Any], dict[str, Tensor]]:
    codec = fit_codec(pd.DataFrame({"x": [1.0, 2.0, 3.0], "k": ["a", "b", "a"], "c": [1, 1, 1]}))
    return codec.state()


@pytest.mark.parametrize("meta", [None, [], {}, {"format": "other"}, "codec"])
def test_foreign_state(meta: Any) -> None:
    with pytest.raises(ValueError, match="not the state of a table codec"):
        read_state(meta, {})


def test_other_version(state: tuple[dict[str, Any], dict[str, Tensor]]) -> None:
    meta, tensors = state
    with pytest.raises(ValueError, match="codec state has version 99, this release reads 1"):
        Codec.from_state({**meta, "version": 99}, tensors, ops=ReferenceBackend())


DAMAGE = {
    "no columns": lambda meta, tensors: meta.pop("columns"),
    "columns empty": lambda meta, tensors: meta["columns"].clear(),
    "name twice": lambda meta, tensors: meta["columns"][0].update(name="k"),
    "name": lambda meta, tensors: meta["columns"][0].update(name=None),
    "kind": lambda meta, tensors: meta["columns"][0].update(kind="mystery"),
    "family": lambda meta, tensors: meta["columns"][0].update(family="mystery"),
    "dtype": lambda meta, tensors: meta["columns"][0].update(dtype={"dtype": "int99"}),
    "dtype key": lambda meta, tensors: meta["columns"][0].update(dtype={}),
    "keys": lambda meta, tensors: meta["columns"][1].update(keys=["a"]),
    "constant": lambda meta, tensors: meta["columns"][2].update(keys=[1, 2]),
    "resolution": lambda meta, tensors: meta["columns"][0]["resolution"].pop("sd"),
    "deviation": lambda meta, tensors: meta["columns"][0]["resolution"].update(sd=0),
    "markers": lambda meta, tensors: meta.update(missing_values=3),
    "no tensor": lambda meta, tensors: tensors.pop("columns.0.keys"),
    "short tensor": lambda meta, tensors: tensors.update({"columns.0.boundaries": torch.zeros(1)}),
    "not ascending": lambda meta, tensors: tensors.update({"columns.0.boundaries": torch.zeros(2)}),
    "tensor dtype": lambda meta, tensors: tensors.update({"columns.0.cumulative": torch.zeros(3)}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_state(damage: str, state: tuple[dict[str, Any], dict[str, Tensor]]) -> None:
    meta, tensors = copy.deepcopy(state)
    DAMAGE[damage](meta, tensors)
    with pytest.raises(ValueError, match="codec state is damaged"):
        Codec.from_state(meta, tensors, ops=ReferenceBackend())
