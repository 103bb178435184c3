import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from missdiff_fast.ops import _library

SUFFIX = ".cpython-311-x86_64-linux-gnu.so"


@pytest.fixture
def copy(tmp_path, monkeypatch, request):
    """Make a package with a copy of the module alone, as ``ops/_library.py``, beside the files given."""

    def make(files: dict[str, str]):
        name = f"package_{abs(hash(request.node.name))}"
        folder = tmp_path / name
        (folder / "ops").mkdir(parents=True)
        for package in (folder, folder / "ops"):
            (package / "__init__.py").touch()
        shutil.copy(Path(_library.__file__), folder / "ops")
        for file, text in files.items():
            (folder / file).write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        library = importlib.import_module(f"{name}.ops._library")
        monkeypatch.setattr(library, "_PACKAGE", name)
        return library

    return make


BUILT = json.dumps({"native": "yes", "torch": "2.12.9", "torch_target": "2.10", "python": "3.99.4", "version": "9.8.7"})


def test_load_registers_the_ops():
    if not _library.load():
        pytest.skip("installed without native ops")
    assert _library.load()
    assert torch.ops.missdiff_fast.perturb.default._schema.name == "missdiff_fast::perturb"


def test_the_ops_that_are_looked_for_are_those_of_the_sources():
    csrc = Path(__file__).parent.parent / "csrc"
    if not csrc.is_dir():
        pytest.skip("the tests lie beside no sources")
    defined = re.findall(r'm\.def\(\s*"(\w+)\(', (csrc / "ops.cpp").read_text())
    assert sorted({*_library._OPS["CPU"], *_library._OPS["CUDA"]}) == sorted(defined)
    for key, folder in (("CPU", "cpu"), ("CUDA", "cuda")):
        sources = [path.read_text() for path in (csrc / folder).glob("*.cpp")]
        assert sorted(_library._OPS[key]) == sorted(re.findall(r'm\.impl\("(\w+)"', "".join(sources))), key


@pytest.mark.parametrize("lacking", ["kernel", "op"])
def test_a_kernel_that_torch_refused_is_an_error(copy, monkeypatch, lacking):
    library = copy({f"_C{SUFFIX}": "", "_build.json": BUILT})
    monkeypatch.setattr(library.importlib, "import_module", lambda *names: None)

    def has_kernel(name: str, key: str) -> bool:
        if lacking == "op" and name == "missdiff_fast::perturb":
            raise RuntimeError(f"operator {name} does not exist")
        return name != "missdiff_fast::perturb"

    monkeypatch.setattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", has_kernel)
    with pytest.raises(ImportError, match=r"does not load: .*torch took no CPU kernel of perturb"):
        library.load()


FIRST_USE = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import torch
import missdiff_fast
from missdiff_fast import ops
assert not {"missdiff_fast._C", "missdiff_fast._cuda"} & set(sys.modules)
rows, key = torch.arange(5), ops.make_key(0, 0)
x, states, offsets = torch.randn(5, 3), torch.ones(5, 2, dtype=torch.uint8), torch.tensor([1, 3])
coefficients = torch.tensor([0.5, 2.0, 0.0, 0.1])

def step(x):
    return ops.step(x, 2 * x, None, states, offsets, coefficients, rows, key)[0] + ops.normal(rows, 3, key)

"""


@pytest.mark.parametrize(
    "use",
    [
        "x.requires_grad_()\n"
        "found = torch.compile(step, fullgraph=True, backend='aot_eager')(x)\n"
        "found.sum().backward()\n",
        "barrier = threading.Barrier(8)\n"
        "def wait_and_step(_):\n    barrier.wait()\n    return step(x)\n"
        "with ThreadPoolExecutor(8) as pool:\n    found, *others = pool.map(wait_and_step, range(8))\n"
        "assert all(torch.equal(found, other) for other in others)\n",
    ],
    ids=["compiled with gradient", "in threads"],
)
def test_the_first_call_loads_the_ops(use):
    """Importing the package loads nothing native; the first call of any kind loads ops, fakes and derivatives."""
    if not _library.load():
        pytest.skip("installed without native ops")
    program = FIRST_USE + use + "assert torch.equal(found, step(x))\nprint('done')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert run.stdout == "done\n", run.stderr[-2000:]


def test_build_info_tells_what_was_built_and_what_runs():
    info = _library.build_info()
    assert all(isinstance(value, str) and value for value in info.values())
    assert info["torch"] == torch.__version__
    assert info["python"] == platform.python_version()
    assert info["cuda"] == "none" or info["cuda"][0].isdigit() or info["cuda"].startswith("no: ")
    if _library.load():
        assert info["native"] == "yes"
        assert info["simd"] in ("baseline", "avx2", "avx512")
        assert info["cxx_standard"] == "C++17"
        assert info["built_for_python"] == info["python"]
        assert info["built_for_torch"][0].isdigit()
        assert info["compiler"] != "none"
    else:
        assert info["native"].startswith("no: ")


def test_without_extension_is_plain_pytorch_and_says_why(copy):
    reason = "a C++ compiler was not found; install one"
    library = copy({"_build.json": json.dumps({"native": "no", "reason": reason, "version": "9.8.7"})})
    with pytest.warns(RuntimeWarning, match=f"plain PyTorch, without its native ops: {re.escape(reason)}"):
        assert library.load() is False
    info = library.build_info()
    assert info["native"].startswith("no: ")
    assert reason in info["native"]
    assert info["simd"] == "none"
    assert info["version"] == "9.8.7"


def test_without_extension_by_choice_is_quiet(copy, recwarn):
    library = copy(
        {"_build.json": json.dumps({"native": "off", "reason": "it was installed with MISSDIFF_NATIVE=off"})}
    )
    assert library.load() is False
    assert "MISSDIFF_NATIVE=off" in library.build_info()["native"]
    assert not recwarn.list


def test_never_installed_says_how_to_install_and_says_it_once(copy, recwarn):
    library = copy({})
    assert library.load() is False
    assert library.load() is False
    (warning,) = recwarn.list
    assert warning.category is RuntimeWarning
    assert "plain PyTorch, without its native ops" in str(warning.message)
    assert "pip install ." in str(warning.message)
    assert "pip install ." in library.build_info()["native"]


def test_extension_that_is_gone_is_an_error(copy):
    library = copy({"_build.json": BUILT})
    with pytest.raises(ImportError, match=r"_C\.\* is missing.*torch 2\.12\.9 and Python 3\.99\.4.*pip install"):
        library.load()
    assert library.build_info()["native"].startswith("broken: ")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"native": "maybe"}'])
def test_facts_that_say_nothing_are_no_facts(copy, text):
    library = copy({"_build.json": text})
    with pytest.warns(RuntimeWarning, match=r"pip install \."):
        assert library.load() is False


def test_extension_that_does_not_load_is_an_error_with_both_versions(copy):
    library = copy({f"_C{SUFFIX}": "not a library", "_build.json": BUILT})
    with pytest.raises(ImportError, match="does not load") as caught:
        library.load()
    message = str(caught.value)
    for part in ("torch 2.12.9", "Python 3.99.4", f"torch {torch.__version__}", f"Python {platform.python_version()}"):
        assert part in message
    assert "pip install" in message
    with pytest.raises(ImportError):
        library.load()
    assert library.build_info()["native"].startswith("broken: ")


def test_extension_for_another_python_is_an_error(copy):
    library = copy({"_C.cpython-399-x86_64-linux-gnu.so": "", "_build.json": BUILT})
    with pytest.raises(ImportError, match=r"cpython-399.*Python 3\.99\.4"):
        library.load()


def test_extension_without_facts_is_still_an_error(copy):
    library = copy({f"_C{SUFFIX}": ""})
    with pytest.raises(ImportError, match="Built for torch unknown"):
        library.load()


def test_torch_older_than_the_target_is_an_error(copy, monkeypatch):
    library = copy({f"_C{SUFFIX}": "", "_build.json": BUILT})
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(ImportError, match=r"needs torch 2\.10 or newer.*found torch 2\.9\.1\+cpu"):
        library.load()


@pytest.mark.parametrize(
    ("version", "release"), [("2.13.0+cpu", (2, 13)), ("2.10.0a0+git1234", (2, 10)), ("2.14", (2, 14))]
)
def test_release_of_a_version(version, release):
    assert _library._release(version) == release


@pytest.mark.parametrize(
    ("architectures", "runs", "fails"),
    [
        ("80-real 86-real 89-real 90-real 100", [(8, 0), (8, 7), (8, 9), (9, 0), (10, 3), (12, 0)], [(7, 5)]),
        ("86-real", [(8, 6), (8, 9)], [(8, 0), (9, 0)]),
        ("80-virtual", [(8, 0), (9, 0), (12, 0)], [(7, 0)]),
        ("90a", [(9, 0)], [(8, 9), (10, 0)]),
        ("native", [(8, 6)], []),
    ],
)
def test_which_cards_run_what_was_built(
    architectures: str, runs: list[tuple[int, int]], fails: list[tuple[int, int]]
) -> None:
    assert all(_library._runs_on(architectures, capability) for capability in runs)
    assert not any(_library._runs_on(architectures, capability) for capability in fails)


def test_why_a_gpu_runs_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "load", lambda: True)
    monkeypatch.setattr(_library, "load_cuda", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "is built without CUDA; install a torch for CUDA" in str(_library.without_cuda(torch.device("cuda")))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert "installed without its CUDA kernels; with nvcc at hand run `MISSDIFF_CUDA=on pip" in str(
        _library.without_cuda(torch.device("cuda"))
    )


def test_kernels_that_could_not_be_built_are_told_of(
    copy: Callable[[dict[str, str]], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "their build with /opt/nvcc failed"
    library = copy({"_build.json": json.dumps(json.loads(BUILT) | {"cuda": "none", "cuda_reason": reason})})
    assert library.build_info()["cuda"] == f"no: {reason}"
    monkeypatch.setattr(library, "load", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    told = f"installed without its CUDA kernels ({reason}); with nvcc at hand run `MISSDIFF_CUDA=on pip"
    with pytest.warns(RuntimeWarning, match=re.escape(told)):
        assert library.load_cuda() is False
    assert told in str(library.without_cuda(torch.device("cuda")))


def test_a_card_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "load", lambda: True)
    monkeypatch.setattr(_library, "load_cuda", lambda: True)
    kernels = SimpleNamespace(build_info=lambda: {"architectures": "80-real 90", "cuda": "13.0.88"})
    monkeypatch.setattr(torch.version, "cuda", "13.2")
    monkeypatch.setitem(sys.modules, "missdiff_fast._cuda", kernels)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    told = str(_library.without_cuda(torch.device("cuda")))
    assert "Tesla T4 is of compute capability 7.5" in told
    assert "CMAKE_CUDA_ARCHITECTURES=75" in told
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert _library.without_cuda(torch.device("cuda")) is None
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    assert "compiled by CUDA 13.0.88, and torch" in str(_library.without_cuda(torch.device("cuda")))


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch is one for CUDA")
def test_kernels_are_not_loaded_under_a_torch_for_the_cpu() -> None:
    """A torch for the CPU lacks the functions that they call."""
    assert not _library.load_cuda()
    assert "missdiff_fast._cuda" not in sys.modules


def test_the_model_imports_no_compiler() -> None:
    """Dynamo takes a second to import."""
    program = "import sys, missdiff_fast.model; sys.exit('torch._dynamo' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
