"""Loads the compiled extensions `_C` and `_cuda`; says what is installed, what is missing and how to install it."""

from __future__ import annotations

import ctypes
import importlib
import json
import platform
import re
import sys
import warnings
from functools import cache
from pathlib import Path

import torch

_PACKAGE = __name__.split(".")[0]
_FOLDER = Path(__file__).parents[1]
_COMMON_OPS = (
    *("uniform", "normal", "perturb", "masked_loss", "masked_noise_loss", "step", "encode", "decode"),
    *("mlp_sample", "mlp_predict", "adamw"),
)
# The ops of the training step that a GPU composes: on the CPU their references stand for them.
_STEP_OPS = (
    *("mlp_input", "mlp_loss", "norm_forward", "norm_backward", "silu_forward", "silu_backward"),
    *("column_sums", "store_next"),
)
_OPS = {"CPU": (*_COMMON_OPS, "mlp_train_step"), "CUDA": (*_COMMON_OPS, *_STEP_OPS, "mlp_train_steps")}
_BUILD = "`MISSDIFF_CUDA=on pip install --force-reinstall --no-deps --no-build-isolation .`"


@cache
def load() -> bool:
    """Load the native ops, once.

    Returns
    -------
    bool
        True when `torch.ops.missdiff_fast` is registered; False when the package was installed without the extension,
        or never installed. A RuntimeWarning says so, unless it was installed with MISSDIFF_NATIVE=off.

    Raises
    ------
    ImportError
        The extension was built but does not load, or its file is missing; the message names the torch and Python that
        it was built for and those found.

    Examples
    --------
    >>> isinstance(load(), bool)
    True
    """
    extensions, facts = _extensions("_C"), _facts()
    if not extensions:
        if facts.get("native") == "yes":
            raise ImportError(_broken(facts, f"the file _C.* is missing from {_FOLDER}"))
        # Warn here: pip hides the output of a build that succeeds.
        if facts.get("native") != "off":
            warnings.warn(_missing(facts), RuntimeWarning, stacklevel=2)
        return False
    target = facts.get("torch_target", "2.10")
    if _release(torch.__version__) < _release(target):
        raise ImportError(_broken(facts, f"{extensions[0]} needs torch {target} or newer"))
    try:
        importlib.import_module("._C", _PACKAGE)
        _check_registered("CPU")
    except ImportError as error:
        raise ImportError(_broken(facts, f"{', '.join(extensions)}: {error}")) from error
    return True


@cache
def load_cuda() -> bool:
    """Load the ops' CUDA kernels, once.

    Returns
    -------
    bool
        True when `torch.ops.missdiff_fast` runs on CUDA devices; `without_cuda` says why it is False. Where the
        kernels could not be built, a RuntimeWarning says why.

    Raises
    ------
    ImportError
        The kernels were built and torch is built for CUDA, but the kernels do not load.

    Examples
    --------
    >>> isinstance(load_cuda(), bool)
    True
    """
    if not load() or torch.version.cuda is None:
        return False
    if not _extensions("_cuda"):
        if "cuda_reason" in _facts():
            warnings.warn(_without_kernels(), RuntimeWarning, stacklevel=2)
        return False
    try:
        _import_cuda()
        _check_registered("CUDA")
    except (ImportError, OSError) as error:
        raise ImportError(_broken(_facts(), f"{', '.join(_extensions('_cuda'))}: {error}")) from error
    return True


def _import_cuda() -> None:
    try:
        importlib.import_module("._cuda", _PACKAGE)
    except ImportError:
        # When built under a CPU-only torch, it is not linked to the torch library that it needs.
        ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"), mode=ctypes.RTLD_GLOBAL)
        importlib.import_module("._cuda", _PACKAGE)


def _check_registered(key: str) -> None:
    """Raise ImportError unless all ops have a kernel for a dispatch key; torch does not tell when it refuses one."""
    lacking = [name for name in _OPS[key] if not _has_kernel(f"missdiff_fast::{name}", key)]
    if lacking:
        raise ImportError(f"torch took no {key} kernel of {', '.join(lacking)}")


def _has_kernel(op: str, key: str) -> bool:
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(op, key)
    except RuntimeError:  # there is no such op
        return False


def without_cuda(device: torch.device) -> str | None:
    """Why the CUDA kernels do not run on a CUDA device, and the remedy; None if they run."""
    if not load():
        return _missing(_facts())
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA; install a torch for CUDA, then run {_BUILD}"
    if not load_cuda():
        return _without_kernels()
    built = importlib.import_module("._cuda", _PACKAGE).build_info()
    if built["cuda"].split(".")[0] != torch.version.cuda.split(".")[0]:
        return (
            f"the kernels were compiled by CUDA {built['cuda']}, and torch {torch.__version__} is of CUDA "
            f"{torch.version.cuda}, whose driver need not run them; name an nvcc of torch's version in CUDACXX and run "
            f"{_BUILD}"
        )
    have, architectures = torch.cuda.get_device_capability(device), built["architectures"]
    if _runs_on(architectures, have):
        return None
    name, number = torch.cuda.get_device_name(device), "".join(map(str, have))
    return (
        f"the kernels were built for the architectures {architectures}, and {name} is of compute capability "
        f"{have[0]}.{have[1]}; build them for it with CMAKE_ARGS=-DCMAKE_CUDA_ARCHITECTURES={number} in the "
        "environment of `pip install`, if it is 80 or more"
    )


def _runs_on(architectures: str, capability: tuple[int, int]) -> bool:
    """Whether code for these CMake architectures runs: machine code within a major version, PTX on all later ones."""
    for architecture in architectures.split():
        parts = re.fullmatch(r"(\d+)([af]?)(-real|-virtual)?", architecture)
        if parts is None:  # "native", "all": built for the GPUs of the machine
            return True
        built, special, kind = divmod(int(parts[1]), 10), parts[2], parts[3]
        same = built == capability if special else built[0] == capability[0] and built[1] <= capability[1]
        later = built <= capability and not special
        if (same and kind != "-virtual") or (later and kind != "-real"):
            return True
    return False


def build_info() -> dict[str, str]:
    """Facts for `missdiff info`.

    Returns
    -------
    dict[str, str]
        ``version`` is the package's; ``native`` is "yes", or "no" or "broken" with the reason and the remedy;
        ``simd``, ``compiler`` and ``cxx_standard`` are the extension's; ``cuda`` is the version of CUDA that compiled
        its kernels ("none" without them, or "no" with the reason where they could not be built); ``built_for_torch``
        and ``built_for_python`` are the versions that it was built for, ``torch`` and ``python`` those that run now.

    Examples
    --------
    >>> sorted(build_info())[:4]
    ['built_for_python', 'built_for_torch', 'compiler', 'cuda']
    """
    facts = _facts()
    try:
        native = load()
        state = "yes" if native else f"no: {_missing(facts)}"
    except ImportError as error:
        native, state = False, f"broken: {error}"
    info = {
        "version": facts.get("version", "unknown"),
        "native": state,
        "simd": "none",
        "compiler": facts.get("compiler", "none"),
        "cxx_standard": facts.get("cxx_standard", "none"),
        "cuda": f"no: {facts['cuda_reason']}" if "cuda_reason" in facts else facts.get("cuda", "none"),
        "built_for_torch": facts.get("torch", "none"),
        "built_for_python": facts.get("python", "unknown"),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    if native:
        built = importlib.import_module("._C", _PACKAGE).build_info()
        info |= {key: built[key] for key in ("version", "simd", "compiler", "cxx_standard")}
        info["built_for_torch"] = built["torch"]
    return info


def _extensions(name: str) -> list[str]:
    return sorted(path.name for path in _FOLDER.glob(f"{name}.*") if path.suffix in (".so", ".pyd"))


def _facts() -> dict[str, str]:
    """Read the facts that the build wrote beside the extension; empty if there are none or they are unreadable."""
    try:
        facts = json.loads((_FOLDER / "_build.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2])


def _missing(facts: dict[str, str]) -> str:
    reason = facts.get("reason", "the package was never installed; run `pip install .` in the project's folder")
    return f"missdiff_fast runs in plain PyTorch, without its native ops: {reason}"


def _without_kernels() -> str:
    reason = _facts().get("cuda_reason")
    because = f" ({reason})" if reason else ""
    return f"missdiff_fast was installed without its CUDA kernels{because}; with nvcc at hand run {_BUILD}"


def _broken(facts: dict[str, str], reason: str) -> str:
    return (
        f"missdiff_fast's native extension does not load: {reason}. "
        f"Built for torch {facts.get('torch', 'unknown')} and Python {facts.get('python', 'unknown')}; "
        f"found torch {torch.__version__} and Python {platform.python_version()} ({sys.executable}). "
        f"It runs under torch {facts.get('torch_target', '2.10')} or newer and under the Python it was built for. "
        "Install the package again under this Python and torch: `pip install --force-reinstall --no-deps .` in the "
        "project's folder."
    )
