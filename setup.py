"""Drives CMake, whose CMakeLists.txt is the only build definition; everything else is in pyproject.toml.

Environment variables
---------------------
MISSDIFF_NATIVE : auto (default), on, off
    auto builds the extension, or installs pure Python where there is no compiler; on makes that an error; off never
    builds.
MISSDIFF_CUDA : auto (default), on, off
    on is an error, as there are no CUDA kernels yet.
CXX : the C++ compiler.
CMAKE_ARGS : further arguments for CMake, for instance -DCMAKE_BUILD_TYPE=Debug.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
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


class CMakeBuild(build_ext):
    def run(self) -> None:
        native, cuda = choice("MISSDIFF_NATIVE"), choice("MISSDIFF_CUDA")
        if cuda == "on":
            raise SetupError(
                "MISSDIFF_CUDA=on, but missdiff_fast has no CUDA kernels yet; leave MISSDIFF_CUDA unset or set it to "
                "off to build for the CPU (plain PyTorch then serves a GPU)"
            )
        package = ROOT / "missdiff_fast" if self.inplace else Path(self.build_lib).resolve() / "missdiff_fast"
        package.mkdir(parents=True, exist_ok=True)
        if native == "off":
            self.leave_out(package, "off", "it was installed with MISSDIFF_NATIVE=off")
            return
        try:
            tools = self.requirements()
        except UnusableError as reason:
            if native == "on":
                raise SetupError(f"MISSDIFF_NATIVE=on, but the extension cannot be built: {reason}") from None
            warning = f"WARNING: missdiff_fast is installed WITHOUT its native ops and will be slow: {reason}"
            print(warning, file=sys.stderr)
            self.leave_out(package, "no", f"{reason}; then install the package again")
        else:
            self.build(package, *tools)

    def leave_out(self, package: Path, native: str, reason: str) -> None:
        for stale in package.glob("_C.*"):
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

    def build(self, package: Path, cmake: str, ninja: str, cxx: list[str]) -> None:
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
