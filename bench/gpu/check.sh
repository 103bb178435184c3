#!/usr/bin/env bash
# Proves the CUDA kernels on the card of this machine: builds them in place, runs the tests that concern a card, runs
# NVIDIA's memory and race checkers over every op, and measures everything against PyTorch; within six minutes.
#
#   bench/gpu/check.sh [--out FOLDER] [--seconds N]     # needs a card
#   bench/gpu/check.sh --dry-run [--out FOLDER]         # needs nvcc alone: builds, and lists what would be measured
#
# Each step has a time limit and a log in FOLDER (build/gpu). A step that fails is told at the end and makes the exit
# status 1; later ones run all the same. Figures go to FOLDER/gpu-CARD.json and to bench/results. Nothing is downloaded,
# and no setting of the card is touched.
#
# PYTHON               the interpreter (python3)
# MISSDIFF_CUDA_ARCH   what to build for (the card's own; 90 for a dry run)
# MISSDIFF_COMMIT      the commit, where there is no Git

set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PYTHON=${PYTHON:-python3}
OUT=$ROOT/build/gpu SECONDS_IN_ALL=350 DRY=

usage() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit "$1"
}

while (($#)); do
    case $1 in
    --dry-run) DRY=1 ;;
    --out) OUT=${2:?--out needs a folder} && shift ;;
    --seconds) SECONDS_IN_ALL=${2:?--seconds needs a number} && shift ;;
    -h | --help) usage 0 ;;
    *) usage 2 >&2 ;;
    esac
    shift
done

SECONDS=0
mkdir -p "$OUT" || exit 2
OUT=$(cd "$OUT" && pwd)
cd "$ROOT" || exit 2
# The package is not installed: it is this folder, and its extensions are built beside its modules.
export PYTHONPATH=$ROOT:$ROOT/bench:$ROOT/tests${PYTHONPATH:+:$PYTHONPATH}
export PYTHONUNBUFFERED=1
FAILED=() TOLD=()

RESERVE=120 # seconds that are kept for measuring

# step NAME LIMIT COMMAND...: the command, its output in NAME.log, within so many seconds and what is left of all.
step() {
    local name=$1 limit=$2 status began=$SECONDS left=$((SECONDS_IN_ALL - SECONDS - RESERVE))
    shift 2
    ((limit < left)) || limit=$left
    if ((limit < 5)); then
        echo "$name: NOT RUN, for want of time"
        return 1
    fi
    timeout -k 10 "$limit" "$@" >"$OUT/$name.log" 2>&1
    status=$?
    if ((status == 0)); then
        echo "$name: done in $((SECONDS - began)) s"
    elif ((status == 124 || status == 137)); then
        echo "$name: STOPPED after its $limit s"
    else
        echo "$name: FAILED with status $status in $((SECONDS - began)) s"
    fi
    return "$status"
}

fail() {
    FAILED+=("$1")
    echo "--- end of $OUT/$1.log"
    tail -n "${2:-15}" "$OUT/$1.log" 2>/dev/null | cut -c1-300
    echo "---"
}

find_tool() {
    command -v "$1" || { [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/$1 ]] && echo "${CUDA_HOME:-/usr/local/cuda}/bin/$1"; }
}

"$PYTHON" -c 'import numpy, pandas, pyarrow, pybind11, safetensors, setuptools, torch, tqdm
assert int(setuptools.__version__.split(".")[0]) >= 77, f"setuptools {setuptools.__version__} is older than 77"' || exit 2
step facts 60 "$PYTHON" -m gpu.card || fail facts
[[ -s $OUT/facts.log ]] && grep -E '"(name|driver|nvcc|torch|cuda|python|commit)"' "$OUT/facts.log"
ARCH=$("$PYTHON" -c 'import torch; print("%d%d" % torch.cuda.get_device_capability() if torch.cuda.is_available() else "")' 2>/dev/null)
if [[ -z $ARCH && -z $DRY ]]; then
    echo "torch sees no CUDA device; --dry-run builds without one" >&2
    exit 2
fi
CORES=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
BUILD=(
    env MISSDIFF_NATIVE=on MISSDIFF_CUDA=on CMAKE_BUILD_PARALLEL_LEVEL="$CORES"
    CMAKE_ARGS="${CMAKE_ARGS:-} -DCMAKE_CUDA_ARCHITECTURES=${MISSDIFF_CUDA_ARCH:-${ARCH:-90}}"
    "$PYTHON" setup.py -q build_ext --inplace
)

if [[ -n $DRY ]]; then
    SECONDS_IN_ALL=1800 RESERVE=0
    step build 1500 "${BUILD[@]}" || fail build
    echo "tests that would run with -k cuda:"
    "$PYTHON" -m gpu.pick_tests | sed "s|^$ROOT/|    |"
    "$PYTHON" -m gpu.plan || FAILED+=(plan)
else
    step build 150 "${BUILD[@]}" || fail build

    mapfile -t FILES < <("$PYTHON" -m gpu.pick_tests 2>"$OUT/left-out.log")
    WORKERS=()
    "$PYTHON" -c 'import xdist' 2>/dev/null && WORKERS=(-n 4)
    # cuBLAS asks for the workspace where PyTorch is to be deterministic, as the tests have it.
    PYTEST=(env CUBLAS_WORKSPACE_CONFIG=:4096:8 "$PYTHON" -m pytest -q -p no:cacheprovider
        --continue-on-collection-errors --maxfail=40 "${WORKERS[@]}")
    # First what only a card can show; then the ops' cases of both devices, but for those in which PyTorch compiles.
    FIRST=() REST=()
    for file in "${FILES[@]}"; do
        case ${file##*/} in
        test_cuda_ops.py | test_cuda_network.py | test_graphs.py | test_adamw.py | test_random.py) FIRST+=("$file") ;;
        test_cuda_*.py) ;; # of the kernels on the host
        *) REST+=("$file") ;;
        esac
    done
    step tests-first 70 "${PYTEST[@]}" -k cuda "${FIRST[@]}" || fail tests-first 40
    tail -n 1 "$OUT/tests-first.log"
    step tests-rest 60 "${PYTEST[@]}" -k "cuda and not compile and not registration and not errors" "${REST[@]}" ||
        fail tests-rest 40
    tail -n 1 "$OUT/tests-rest.log"
    [[ -s $OUT/left-out.log ]] && cat "$OUT/left-out.log"
    rm -f "$OUT/left-out.log"

    SANITIZER=$(find_tool compute-sanitizer)
    if [[ -n $SANITIZER ]]; then
        pids=() tools=(memcheck racecheck)
        for tool in "${tools[@]}"; do
            # Without PyTorch's cache each tensor is an allocation of its own, past whose end nothing may be touched.
            step "$tool" 90 env PYTORCH_NO_CUDA_MEMORY_CACHING=1 "$SANITIZER" --tool "$tool" --error-exitcode 9 \
                --report-api-errors no "$PYTHON" -m gpu.small_case &
            pids+=($!)
        done
        for i in "${!tools[@]}"; do
            wait "${pids[$i]}" && continue
            if grep -qi "device not supported" "$OUT/${tools[$i]}.log"; then
                TOLD+=("${tools[$i]}: skipped, compute-sanitizer does not support this machine's device")
            else
                fail "${tools[$i]}"
            fi
        done
    else
        TOLD+=("memcheck, racecheck: skipped, compute-sanitizer was not found")
        step small_case 60 "$PYTHON" -m gpu.small_case || fail small_case
    fi

    NAME=gpu-$("$PYTHON" -c 'import torch; from gpu.card import name, slug; print(slug(name(torch.device("cuda"))))').json
    RESERVE=0 LEFT=$((SECONDS_IN_ALL - SECONDS - 15))
    step measure $((LEFT + 10)) "$PYTHON" -m gpu.measure --out "$OUT/$NAME" --seconds "$LEFT" || fail measure 40
    if [[ -s $OUT/$NAME ]]; then
        mkdir -p bench/results && cp "$OUT/$NAME" "bench/results/$NAME"
        "$PYTHON" -m gpu.summary "$OUT/$NAME"
    fi
fi

for line in "${TOLD[@]}"; do echo "$line"; done
echo "all: $SECONDS s; logs in $OUT"
if ((${#FAILED[@]})); then
    echo "FAILED: ${FAILED[*]}"
    exit 1
fi
