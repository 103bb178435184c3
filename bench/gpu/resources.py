"""Registers, spills and shared memory of each CUDA kernel in the last build, compared with the stored ones.

    python bench/gpu/resources.py [--save]

Kernels that use or spill more registers than csrc/cuda/resources.json allows are reported, and so are kernels that it
does not know; the exit status is then 1. ``--save`` stores what the build took. Needs a build in the project's folder
with MISSDIFF_CUDA=on and CMAKE_ARGS=-DMISSDIFF_RECORD_RESOURCES=ON.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "csrc" / "cuda" / "resources.json"

Taken = dict[str, int]  # registers, and bytes of spills, stack and shared memory
Resources = dict[str, dict[str, Taken]]  # by architecture and kernel

BUILD = ROOT / "missdiff_fast" / "_build.json"

_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def parse(text: str) -> Iterator[tuple[str, str, Taken]]:
    """The architecture, mangled name and resources of each kernel in what ``ptxas -v`` printed."""
    for part in re.split(r"(?=ptxas info\s*: Compiling entry function)", text):
        entry, frame, used = _ENTRY.search(part), _FRAME.search(part), _USED.search(part)
        if entry is None or frame is None or used is None:
            continue
        shared = _SHARED.search(part)
        yield (
            entry[2],
            entry[1],
            {
                "registers": int(used[1]),
                "stack": int(frame[1]),
                "spills": int(frame[2]) + int(frame[3]),
                "shared": int(shared[1]) if shared else 0,
            },
        )


def demangle(names: Iterable[str]) -> list[str]:
    """C++ names without the namespace and the arguments."""
    done = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True)
    return [
        line.replace("missdiff::", "").replace("cuda::", "").removeprefix("void ") for line in done.stdout.splitlines()
    ]


def logs() -> list[Path]:
    """Reports of ptxas from the last builds in the project's folder."""
    return sorted((ROOT / "build").glob("cmake-*/CMakeFiles/_cuda.dir/**/*.resources"))


def of_build(files: Iterable[Path]) -> Resources:
    """The resources of all kernels."""
    found = [kernel for file in files for kernel in parse(file.read_text(encoding="utf-8"))]
    resources: Resources = {}
    for (architecture, _, taken), name in zip(found, demangle(name for _, name, _ in found), strict=True):
        resources.setdefault(architecture, {})[name] = taken
    return {architecture: dict(sorted(kernels.items())) for architecture, kernels in sorted(resources.items())}


def compiler() -> str:
    """The version of nvcc that the last build in the project's folder had: another one chooses other registers."""
    return str(json.loads(BUILD.read_text(encoding="utf-8"))["cuda"])


def stored() -> tuple[str, Resources]:
    """The stored resources, and the version of the nvcc that they are of."""
    content = json.loads(STORED.read_text(encoding="utf-8"))
    return content.pop("nvcc"), content


def write(resources: Resources) -> None:
    """Store these, a line for each kernel."""
    parts = [f'"nvcc": {json.dumps(compiler())}']
    for architecture, kernels in resources.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(taken)}" for name, taken in kernels.items())
        parts.append(f"{json.dumps(architecture)}: {{\n{lines}\n }}")
    STORED.write_text("{\n " + ",\n ".join(parts) + "\n}\n", encoding="utf-8")


def complaints(taken: Resources, allowed: Resources) -> Iterator[str]:
    """Kernels that exceed the stored resources, for the architectures that both know."""
    for architecture in taken.keys() & allowed.keys():
        for kernel, own in taken[architecture].items():
            most = allowed[architecture].get(kernel)
            if most is None:
                yield f"{architecture}: {kernel} is not in {STORED.name}; store it with --save"
                continue
            for name, number in own.items():
                if number > most[name]:
                    yield f"{architecture}: {kernel} takes {number} of {name}, not the {most[name]} stored"
        for kernel in allowed[architecture].keys() - taken[architecture].keys():
            yield f"{architecture}: {kernel} is in {STORED.name}, but is no longer built"


def main() -> int:
    """Compare, or store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true")
    save, taken = parser.parse_args().save, of_build(logs())
    if not taken:
        print("build/ holds no build with MISSDIFF_CUDA=on and MISSDIFF_RECORD_RESOURCES=ON", file=sys.stderr)
        return 1
    if save:
        write(taken)
        return 0
    version, allowed = stored()
    if version != compiler():
        print(f"stored is what nvcc {version} took; this build is of {compiler()}", file=sys.stderr)
        return 1
    found = sorted(complaints(taken, allowed))
    print("\n".join(found) or f"{sum(map(len, taken.values()))} kernels, none over what is stored")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
