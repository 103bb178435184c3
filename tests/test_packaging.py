import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from missdiff_fast import __version__

ROOT = Path(__file__).parent.parent
DATA = {
    "missdiff_fast/datasets/census.csv.xz",
    "missdiff_fast/datasets/README.md",
    "missdiff_fast/reproduce/paper_figures.csv",
}

pytestmark = pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="not in a source tree")


def run(*arguments, cwd, check=True, **variables):
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("MISSDIFF_", "CMAKE_ARGS"))}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=clean | variables,
        check=check,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """Names in the source distribution, and the folder it unpacks to."""
    folder = tmp_path_factory.mktemp("sdist")
    run("-m", "build", "--sdist", "--no-isolation", "--skip-dependency-check", "--outdir", folder, ROOT, cwd=folder)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return names, folder / archive.name.removesuffix(".tar.gz")


def build_wheel(source, folder, **variables):
    run(
        *("-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", folder, source),
        cwd=folder,
        **variables,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def package_files(folder):
    return {str(path.relative_to(folder)) for path in (folder / "missdiff_fast").rglob("*.py")}


def test_version_is_one():
    # As CMakeLists.txt reads it; tomllib is newer than Python 3.10.
    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert __version__ == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_sdist_has_what_a_build_and_its_tests_need(sdist):
    names, _ = sdist
    wanted = {
        "CMakeLists.txt",
        "setup.py",
        "pyproject.toml",
        "LICENSE",
        "Makefile",
        "CHANGELOG.md",
        "README.md",
        "conftest.py",
    }
    wanted |= {str(path.relative_to(ROOT)) for folder in ("csrc", "docs") for path in (ROOT / folder).rglob("*.*")}
    wanted |= {str(path.relative_to(ROOT)) for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py")}
    wanted |= package_files(ROOT) | DATA | {"missdiff_fast/py.typed", "csrc/module.cpp"}
    assert wanted - names == set()


def test_sdist_has_nothing_built(sdist):
    names, _ = sdist
    assert not [name for name in names if name.endswith((".so", ".pyc", "_build.json")) or name.startswith("build/")]


def test_wheel_without_native_ops(sdist, tmp_path):
    _, source = sdist
    wheel = build_wheel(source, tmp_path, MISSDIFF_NATIVE="off")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        facts = json.loads(archive.read("missdiff_fast/_build.json"))
        (entry_points,) = (archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("METADATA"))
    assert facts["native"] == "off"
    assert "MISSDIFF_NATIVE=off" in facts["reason"]
    assert "missdiff = missdiff_fast.cli:main" in entry_points
    assert "License-Expression: MIT" in metadata
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name for name in names if name.endswith(".py")} == package_files(ROOT)
    assert DATA | {"missdiff_fast/py.typed"} <= names
    assert all(name.split("/")[0] in ("missdiff_fast", f"missdiff_fast-{__version__}.dist-info") for name in names)
    assert not [name for name in names if name.endswith((".so", ".cpp", ".h", ".cu"))]


def test_wheel_with_native_ops_loads_where_it_is_installed(sdist, tmp_path):
    _, source = sdist
    # Unoptimised and in few large units, as only the build itself is under test.
    arguments = "-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0"
    arguments += " -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0"
    wheel = build_wheel(source, tmp_path, MISSDIFF_NATIVE="on", CMAKE_ARGS=arguments)
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.stem.endswith(tag)
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    names = {path.name for path in (installed / "missdiff_fast").iterdir()}
    assert f"_C{sysconfig.get_config_var('EXT_SUFFIX')}" in names
    program = "from missdiff_fast.ops import _library as l; print(l.__file__, l.load(), l.build_info()['native'])"
    shown = run("-c", program, cwd=tmp_path, PYTHONPATH=str(installed)).stdout.strip()
    assert shown == f"{installed}/missdiff_fast/ops/_library.py True yes"


def test_native_build_after_which_native_is_turned_off_leaves_no_extension(tmp_path, sdist):
    _, source = sdist
    library = tmp_path / "lib"
    (library / "missdiff_fast").mkdir(parents=True)
    (library / "missdiff_fast/_C.cpython-311-x86_64-linux-gnu.so").touch()
    run("setup.py", "build_ext", "--build-lib", library, cwd=source, MISSDIFF_NATIVE="off")
    assert [path.name for path in (library / "missdiff_fast").iterdir()] == ["_build.json"]


def test_no_compiler_gives_plain_pytorch_with_a_warning(sdist, tmp_path):
    _, source = sdist
    shown = run("setup.py", "build_ext", "--build-lib", tmp_path, cwd=source, CXX="/nowhere/c++").stdout
    assert "WARNING: missdiff_fast is installed WITHOUT its native ops" in shown
    facts = json.loads((tmp_path / "missdiff_fast/_build.json").read_text())
    assert facts["native"] == "no"
    assert "/nowhere/c++" in facts["reason"]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"MISSDIFF_CUDA": "on", "CUDACXX": "/nowhere/nvcc"}, "MISSDIFF_CUDA=on, but the CUDA kernels cannot be built"),
        ({"MISSDIFF_CUDA": "on", "MISSDIFF_NATIVE": "off"}, "MISSDIFF_CUDA=on needs the native ops"),
        ({"MISSDIFF_CUDA": "on", "CXX": "/nowhere/c++"}, "MISSDIFF_CUDA=on, but the extension cannot be built"),
        ({"MISSDIFF_CUDA": "yes"}, "MISSDIFF_CUDA is 'yes'; it must be auto, on or off"),
        ({"MISSDIFF_NATIVE": "1"}, "MISSDIFF_NATIVE is '1'; it must be auto, on or off"),
        ({"MISSDIFF_NATIVE": "on", "CXX": "/nowhere/c++"}, "MISSDIFF_NATIVE=on, but the extension cannot be built"),
        ({"CMAKE_ARGS": "-DCMAKE_CXX_FLAGS=-DPYBIND11_MODULE=("}, "the native build failed"),
    ],
)
def test_build_errors(sdist, tmp_path, variables, message):
    _, source = sdist
    result = run("setup.py", "build_ext", "--build-lib", tmp_path, cwd=source, check=False, **variables)
    assert result.returncode != 0
    assert f"error: {message}" in result.stdout
    assert not list(tmp_path.rglob("_C*"))


def fake_nvcc(folder, release):
    """A program that tells this release of CUDA and compiles nothing."""
    path = folder / "nvcc"
    path.write_text(f"#!/bin/sh\necho Cuda compilation tools, release {release}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def fake_torch(folder, cuda):
    """A folder with a package `torch` of this version of CUDA."""
    package = folder / "torch"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "version.py").write_text(f"cuda: Optional[str] = {cuda!r}\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("cuda", "release", "choice", "told"),
    [
        (None, "13.0", "auto", None),
        (None, "12.4", "on", "12.4"),
        ("13.0", "13.1", "auto", "13.1"),
        ("12.8", "13.0", "auto", "is of CUDA 13.0, but torch of CUDA 12.8"),
        ("12.8", "13.0", "off", None),
    ],
)
def test_which_nvcc_is_taken(sdist, tmp_path, cuda, release, choice, told):
    """Kernels are built for a torch of the same major version of CUDA, or for none that is there to run them."""
    _, source = sdist
    program = (
        "import sys; sys.argv = ['setup.py', '--version']; import setup;"
        "found, reason = setup.CMakeBuild.cuda_requirements(None, sys.argv.pop() and CHOICE);"
        "print('found', found); print('reason', reason)"
    ).replace("CHOICE", repr(choice))
    nvcc = fake_nvcc(tmp_path, release)
    path = f"{fake_torch(tmp_path, cuda)}{os.pathsep}{source}"
    shown = run("-c", program, cwd=source, CUDACXX=str(nvcc), PYTHONPATH=path).stdout
    if told is None or told.startswith("is of"):
        assert "found None" in shown
        assert ("reason None" in shown) == (told is None)
        assert (told or "") in shown
    else:
        assert f"found {nvcc}" in shown


@pytest.mark.parametrize("choice", ["auto", "on"])
def test_kernels_that_do_not_compile(sdist, tmp_path, choice):
    """MISSDIFF_CUDA=on makes it an error; auto leaves them out, and says so where it can be seen."""
    _, source = sdist
    program = (
        "import sys; sys.argv = ['setup.py', '--version']; import setup; from pathlib import Path\n"
        "def build(self, package, cmake, ninja, cxx, nvcc):\n"
        "    if nvcc: raise setup.CompileError('the native build failed')\n"
        '    (package / \'_build.json\').write_text(\'{"native": "yes", "cuda": "none"}\')\n'
        "setup.CMakeBuild.build = build\n"
        "setup.CMakeBuild.requirements = lambda self: ('cmake', 'ninja', ['c++'])\n"
        "sys.argv = ['setup.py', 'build_ext', '--build-lib', FOLDER]\n"
        "setup.setup(cmdclass={'build_ext': setup.CMakeBuild},"
        " ext_modules=[setup.Extension('missdiff_fast._C', sources=[])])"
    ).replace("FOLDER", repr(str(tmp_path / "lib")))
    path = f"{fake_torch(tmp_path, '13.0')}{os.pathsep}{source}"
    variables = {"MISSDIFF_CUDA": choice, "CUDACXX": str(fake_nvcc(tmp_path, "13.0")), "PYTHONPATH": path}
    done = run("-c", program, cwd=source, check=False, **variables)
    if choice == "on":
        assert done.returncode != 0
        assert "the native build failed" in done.stdout
        assert "WITHOUT its CUDA kernels" not in done.stdout
        assert not (tmp_path / "lib/missdiff_fast/_build.json").exists()
    else:
        assert done.returncode == 0
        assert "WARNING: missdiff_fast is installed WITHOUT its CUDA kernels: their build with " in done.stdout
        facts = json.loads((tmp_path / "lib/missdiff_fast/_build.json").read_text(encoding="utf-8"))
        assert facts["cuda_reason"].startswith("their build with ")
