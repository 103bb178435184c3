"""Drives CMake, whose CMakeLists.txt is the only build definition; everything else is in pyproject.toml.

Environment variables
---------------------
MISSDIFF_NATIVE : auto (default), on, off
    auto builds the extension, or installs pure Python where there is no compiler; on makes that an error; off never
    builds.
MISSDIFF_CUDA : auto (default), on, off
    auto builds the CUDA kernels where torch is one for CUDA; where nvcc is missing or fails it leaves them out, prints
    a warning and stores the reason for `missdiff info`. on makes both an error, and builds the kernels under a torch
    for the CPU too, which compiles but never loads them. off never builds them.
CXX, CUDACXX : the C++ compiler, and nvcc.
CMAKE_ARGS : further arguments for CMake, for instance -DCMAKE_CUDA_ARCHITECTURES=90 to build for one card alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, SetupError

ROOT = Path(__file__).resolve().parent


class UnusableError(Exception):
    """The machine lacks something that the native build needs."""


def choice(variable: str) -> str:
    value = os.environ.get(variable) or "auto"
    if value not in ("auto", "on", "off"):
        raise SetupError(f"{variable} is {value!r}; it must be auto, on or off")
    return value


def tool(name: str, folder: str) -> str:
    """Path of a build tool, from its PyPI package if there is one, since a virtual environment need not be on PATH."""
    if importlib.util.find_spec(name):
        path = shutil.which(name, path=getattr(importlib.import_module(name), folder, None))
        if path:
            return path
    path = shutil.which(name)
    if not path:
        raise UnusableError(f"{name} was not found; install it with `pip install {name}`")
    return path


def compiler() -> list[str]:
    """Command of the C++ compiler, once it has shown that it can compile for this Python."""
    named = os.environ.get("CXX")
    command = shlex.split(named) if named else [next(filter(shutil.which, ("c++", "g++", "clang++")), "")]
    if not command[0] or not shutil.which(command[0]):
        missing = f"the C++ compiler {command[0]} (from CXX)" if named else "a C++ compiler"
        raise UnusableError(f"{missing} was not found; install one, for instance with `apt-get install g++`")
    includes = {sysconfig.get_path(key) for key in ("include", "platinclude")}
    probe = subprocess.run(
        [*command, "-std=c++17", "-fsyntax-only", *(f"-I{folder}" for folder in includes), "-x", "c++", "-"],
        input="#include <Python.h>\n#include <optional>\n",
        capture_output=True,
        text=True,
    )
    if probe.returncode and "Python.h" in probe.stderr:
        raise UnusableError(
            "Python's header Python.h was not found; install it, for instance with `apt-get install python3-dev`"
        )
    if probe.returncode:
        raise UnusableError(f"{shlex.join(command)} does not compile C++17:\n{probe.stderr.strip()}")
    return command


def torch_cuda() -> str | None:
    """The version of CUDA that torch was built for, read from its files: to import it takes seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    text = (Path(spec.submodule_search_locations[0]) / "version.py").read_text(encoding="utf-8")
    found = re.search(r"^cuda[^=\n]*= *['\"]([0-9.]+)['\"]", text, re.MULTILINE)
    return found.group(1) if found else None


def nvcc_release(path: str) -> tuple[int, int]:
    """The version of CUDA that an nvcc is of."""
    told = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"release (\d+)\.(\d+)", told)
    if not found:
        raise UnusableError(f"{path} --version tells no release; name a working nvcc in CUDACXX")
    return int(found.group(1)), int(found.group(2))


def architectures(nvcc: str) -> list[str]:
    """Default architectures, as far as the nvcc knows them; the last also as PTX, for later cards."""
    known = ["80", "86", "89", "90", *(["100"] if nvcc_release(nvcc) >= (12, 8) else [])]
    return [*(f"{architecture}-real" for architecture in known[:-1]), known[-1]]


def cuda_compiler() -> str:
    """Path of an nvcc of the major version of torch's CUDA."""
    named, home = os.environ.get("CUDACXX"), os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    path = shutil.which(named or "nvcc") or (None if named else shutil.which("nvcc", path=str(Path(home) / "bin")))
    if not path:
        missing = f"{named} (from CUDACXX)" if named else "nvcc"
        raise UnusableError(
            f"{missing} was not found; install the CUDA toolkit, put nvcc on PATH, or name it in CUDACXX"
        )
    (own, minor), wanted = nvcc_release(path), torch_cuda()
    if wanted is not None and str(own) != wanted.split(".")[0]:
        raise UnusableError(
            f"{path} is of CUDA {own}.{minor}, but torch of CUDA {wanted}, and kernels of another major version need "
            "another driver; name an nvcc of torch's version in CUDACXX"
        )
    return path


class CMakeBuild(build_ext):
    def run(self) -> None:
        native, cuda = choice("MISSDIFF_NATIVE"), choice("MISSDIFF_CUDA")
        if cuda == "on" and native == "off":
            raise SetupError("MISSDIFF_CUDA=on needs the native ops, but MISSDIFF_NATIVE=off leaves them out")
        package = ROOT / "missdiff_fast" if self.inplace else Path(self.build_lib).resolve() / "missdiff_fast"
        package.mkdir(parents=True, exist_ok=True)
        if native == "off":
            self.leave_out(package, "off", "it was installed with MISSDIFF_NATIVE=off")
            return
        try:
            tools = self.requirements()
        except UnusableError as reason:
            if "on" in (native, cuda):
                variable = "MISSDIFF_NATIVE" if native == "on" else "MISSDIFF_CUDA"
                raise SetupError(f"{variable}=on, but the extension cannot be built: {reason}") from None
            warning = f"WARNING: missdiff_fast is installed WITHOUT its native ops and will be slow: {reason}"
            print(warning, file=sys.stderr)
            self.leave_out(package, "no", f"{reason}; then install the package again")
        else:
            nvcc, reason = self.cuda_requirements(cuda)
            try:
                self.build(package, *tools, nvcc)
            except CompileError:
                if nvcc is None or cuda == "on":
                    raise
                reason = f"their build with {nvcc} failed; run it again with MISSDIFF_CUDA=on to see its errors"
                self.build(package, *tools, None)
            if reason is not None:
                self.tell_without_cuda(package, reason)

    def cuda_requirements(self, cuda: str) -> tuple[str | None, str | None]:
        """Path of nvcc, or None and why the CUDA kernels are left out, if that was not chosen."""
        if cuda == "off" or (cuda == "auto" and torch_cuda() is None):
            return None, None
        try:
            return cuda_compiler(), None
        except UnusableError as reason:
            if cuda == "on":
                raise SetupError(f"MISSDIFF_CUDA=on, but the CUDA kernels cannot be built: {reason}") from None
            return None, str(reason)

    def tell_without_cuda(self, package: Path, reason: str) -> None:
        """Print the reason last, where it can be seen, and store it: pip shows no output of a build that succeeds."""
        path = package / "_build.json"
        facts = json.loads(path.read_text(encoding="utf-8")) | {"cuda_reason": reason}
        path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        lines = "!" * 80
        print(
            f"{lines}\nWARNING: missdiff_fast is installed WITHOUT its CUDA kernels: {reason}\n{lines}", file=sys.stderr
        )

    def leave_out(self, package: Path, native: str, reason: str) -> None:
        for stale in (*package.glob("_C.*"), *package.glob("_cuda.*")):
            stale.unlink()
        facts = {
            "native": native,
            "reason": reason,
            "version": self.distribution.get_version(),
            "python": platform.python_version(),
        }
        (package / "_build.json").write_text(json.dumps(facts, indent=2) + "\n")
        self.extensions = []

    def requirements(self) -> tuple[str, str, list[str]]:
        for module in ("torch", "pybind11"):
            if not importlib.util.find_spec(module):
                raise UnusableError(f"the package {module} was not found; install it, or build with build isolation")
        return tool("cmake", "CMAKE_BIN_DIR"), tool("ninja", "BIN_DIR"), compiler()

    def build(self, package: Path, cmake: str, ninja: str, cxx: list[str], nvcc: str | None) -> None:
        folder = ROOT / "build" / f"cmake-{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
        configure = [
            cmake,
            "-S",
            str(ROOT),
            "-B",
            str(folder),
            "-G",
            "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={ninja}",
            f"-DPython_EXECUTABLE={sys.executable}",
        ]
        if nvcc:
            configure += ["-DMISSDIFF_CUDA=ON", f"-DCMAKE_CUDA_COMPILER={nvcc}"]
            configure.append(f"-DCMAKE_CUDA_ARCHITECTURES={';'.join(architectures(nvcc))}")
        else:
            configure.append("-DMISSDIFF_CUDA=OFF")
            for stale in package.glob("_cuda.*"):
                stale.unlink()
        configure.append("-DMISSDIFF_RECORD_RESOURCES=OFF")  # not as an earlier build chose
        configure += shlex.split(os.environ.get("CMAKE_ARGS", ""))
        if len(cxx) == 1:
            configure.append(f"-DCMAKE_CXX_COMPILER={shutil.which(cxx[0])}")
        for command in (
            configure,
            [cmake, "--build", str(folder)],
            [cmake, "--install", str(folder), "--prefix", str(package)],
        ):
            if subprocess.run(command).returncode:
                raise CompileError(f"the native build failed at `{shlex.join(command)}`; its output is above")


setup(ext_modules=[Extension("missdiff_fast._C", sources=[])], cmdclass={"build_ext": CMakeBuild})
