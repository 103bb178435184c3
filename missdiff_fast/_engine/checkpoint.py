"""A fitted model in one file: safetensors, with everything else as JSON in the header. No pickle.

A JSON that is too long for the header, as of categories that are long texts, is a tensor of its bytes.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from missdiff_fast.table.atomic import write_atomically

_FORMAT = "missdiff_fast model"
_VERSION = 5
_MOST_IN_HEADER = 40_000_000  # characters, which escaping may double; safetensors reads headers of up to 100 MB
_DESCRIPTION = "description"  # the tensor of a longer JSON's bytes


def write(path: str | Path, meta: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a model; an existing file is replaced only once the new one is complete.

    The same model gives the same bytes.

    Raises
    ------
    OSError
        The folder does not exist, or the file cannot be written.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    model = json.dumps(meta)
    header = {"format": _FORMAT, "version": str(_VERSION), "model": model, "digest": _digest(model, plain)}
    if len(model) > _MOST_IN_HEADER:
        plain[_DESCRIPTION] = torch.frombuffer(bytearray(header.pop("model").encode()), dtype=torch.uint8)
    data = save(plain)
    start = 8 + int.from_bytes(data[:8], "little")
    # The library writes the metadata in another order every time.
    text = json.dumps({"__metadata__": header, **json.loads(data[8:start])}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with write_atomically(path) as temporary:
        temporary.write_bytes(b"".join([len(text).to_bytes(8, "little"), text, memoryview(data)[start:]]))


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what `write` wrote, onto the CPU.

    Raises
    ------
    FileNotFoundError
        No such file.
    ValueError
        The file is truncated or changed, or no model of this package, or of another format.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}")
    data = path.read_bytes()  # read here, because safetensors cannot open a file whose name is not UTF-8
    try:
        tensors = load(data)
    except SafetensorError as error:
        raise ValueError(
            f"{path} is no readable model: truncated, or not written by missdiff_fast ({error})"
        ) from error
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__") or {}
    if header.get("format") != _FORMAT:
        raise ValueError(f"{path} holds tensors, but no missdiff_fast model")
    if header.get("version") != str(_VERSION):
        raise ValueError(
            f"{path} was written in model format {header.get('version')}; this missdiff_fast reads format {_VERSION}: "
            "use the version that wrote it, or fit again"
        )
    try:
        model = bytes(tensors.pop(_DESCRIPTION).numpy()).decode() if _DESCRIPTION in tensors else header["model"]
        meta = json.loads(model)
    except (KeyError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no readable model: its description is damaged") from error
    if header.get("digest") != _digest(model, tensors):
        raise ValueError(
            f"{path} is damaged: its contents are not those that were written; copy it again, or fit again"
        )
    return meta, tensors


def _digest(model: str, tensors: dict[str, Tensor]) -> str:
    """Checksum of the whole content: safetensors itself does not detect a changed byte in a tensor."""
    digest = hashlib.sha256(model.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
