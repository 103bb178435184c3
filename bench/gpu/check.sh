#!/usr/bin/env bash
# Builds the CUDA kernels in place for the card of this machine, calls each op once, measures everything against PyTorch,
# runs the tests of a card, and NVIDIA's memory and race checkers and profiler over the ops; within six minutes.
#
#   bench/gpu/check.sh [--out FOLDER] [--seconds N]     # needs a card
#   bench/gpu/check.sh --dry-run [--out FOLDER]         # needs nvcc alone: builds, and lists what would be measured
#
# Each step has a time limit and a log in build/gpu. A failed step is named at the end and makes the exit status 1; later
# steps run all the same. FOLDER (build/gpu) gets two files, which are whole after each step, so that they can be kept if
# the script is stopped: ops_CARD.json with the figures, which also go to bench/results, and logs.tar.gz with all logs.
# Nothing is downloaded, and no setting of the card is changed. Beside the package's own requirements and the build's
# tools it needs pytest. With more seconds (350) more is measured and tested.
#
# PYTHON               the interpreter (python3)
# MISSDIFF_CUDA_ARCH   the architecture to build for (the card's own; 90 for a dry run)
# MISSDIFF_COMMIT      the commit, if there is no Git

set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PYTHON=${PYTHON:-python3}
LOGS=$ROOT/build/gpu
OUT=$LOGS SECONDS_IN_ALL=350 DRY=

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

[[ $SECONDS_IN_ALL =~ ^[0-9]{1,5}$ ]] && ((SECONDS_IN_ALL = 10#$SECONDS_IN_ALL, SECONDS_IN_ALL >= 240)) ||
    { echo "--seconds must be a number from 240: a build takes half of that" >&2 && exit 2; }
SECONDS=0
mkdir -p "$OUT" "$LOGS" || exit 2
OUT=$(cd "$OUT" && pwd)
rm -f "$LOGS"/*.log "$LOGS"/*.done "$OUT/logs.tar.gz" # of an earlier run
cd "$ROOT" || exit 2
# The package is not installed: it is this folder, and its extensions are built beside its modules.
export PYTHONPATH=$ROOT:$ROOT/bench:$ROOT/tests${PYTHONPATH:+:$PYTHONPATH}
export PYTHONUNBUFFERED=1
FAILED=() NOTES=()

LATER=$((SECONDS_IN_ALL * 35 / 100)) # seconds kept for tests, checkers and profiles
RESERVE=$((SECONDS_IN_ALL / 2))      # seconds that the build and the first calls leave

# share PERCENT MOST: so much of the time left, and no more than MOST seconds.
share() {
    local part=$(((SECONDS_IN_ALL - SECONDS) * $1 / 100))
    echo $((part < $2 ? part : $2))
}

# Put all logs so far into the archive.
pack() {
    (cd "$LOGS" && tar -czf "$OUT/logs.new" -- *.log) && mv "$OUT/logs.new" "$OUT/logs.tar.gz"
}

# step NAME LIMIT COMMAND...: run the command within LIMIT seconds and the time left, its output in NAME.log.
step() {
    local name=$1 limit=$2 status began=$SECONDS left=$((SECONDS_IN_ALL - SECONDS - RESERVE))
    shift 2
    ((limit < left)) || limit=$left
    if ((limit < 5)); then
        echo "$name: NOT RUN, too little time is left" | tee "$LOGS/$name.log"
        return 0 # no fault of the code
    fi
    timeout -k 10 "$limit" "$@" >"$LOGS/$name.log" 2>&1
    status=$?
    ((BASH_SUBSHELL)) || pack # not beside another step
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
    echo "--- end of $LOGS/$1.log"
    tail -n "${2:-15}" "$LOGS/$1.log" 2>/dev/null | cut -c1-300
    echo "---"
}

find_tool() {
    command -v "$1" || { [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/$1 ]] && echo "${CUDA_HOME:-/usr/local/cuda}/bin/$1"; }
}

"$PYTHON" -c 'import numpy, pandas, pyarrow, pybind11, pytest, safetensors, torch, tqdm' || exit 2
step facts 60 "$PYTHON" -c 'import json, store, torch
print(json.dumps(store.facts(torch.device("cuda" if torch.cuda.is_available() else "cpu")), indent=1))' || fail facts
[[ -s $LOGS/facts.log ]] && grep -E '"(name|driver|nvcc|torch|cuda|python|numpy|pandas|commit)"' "$LOGS/facts.log"
ARCH=$("$PYTHON" -c 'import torch; print("%d%d" % torch.cuda.get_device_capability() if torch.cuda.is_available() else "")' 2>/dev/null)
if [[ -z $ARCH && -z $DRY ]]; then
    echo "torch sees no CUDA device; --dry-run builds without one" >&2
    exit 2
fi
CORES=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
ARCHITECTURE=-DCMAKE_CUDA_ARCHITECTURES=${MISSDIFF_CUDA_ARCH:-${ARCH:-90}}
BUILD=(
    env MISSDIFF_NATIVE=on MISSDIFF_CUDA=on CMAKE_BUILD_PARALLEL_LEVEL="$CORES" CMAKE_ARGS="${CMAKE_ARGS:-} $ARCHITECTURE"
    "$PYTHON" setup.py -q build_ext --inplace
)
# An older setuptools does not read pyproject.toml's licence; CMake builds without it.
if ! "$PYTHON" -c 'import setuptools; assert int(setuptools.__version__.split(".")[0]) >= 77' 2>/dev/null; then
    NVCC=${CUDACXX:-$(find_tool nvcc)}
    BUILD=(
        env CMAKE_BUILD_PARALLEL_LEVEL="$CORES" bash -ec
        'cmake -S . -B "$0" -G Ninja "$@"; cmake --build "$0"; cmake --install "$0" --prefix missdiff_fast'
        "$LOGS/cmake" -DMISSDIFF_CUDA=ON "-DCMAKE_CUDA_COMPILER=$NVCC" "-DPython_EXECUTABLE=$(command -v "$PYTHON")"
        "$ARCHITECTURE" ${CMAKE_ARGS:-}
    )
fi

if [[ -n $DRY ]]; then
    SECONDS_IN_ALL=1800 RESERVE=0
    step build 1500 "${BUILD[@]}" || fail build
    echo "files whose tests with the marker cuda would run:"
    "$PYTHON" -m gpu.pick_tests | sed "s|^$ROOT/|    |"
    echo "what would be measured, in order:"
    "$PYTHON" -m pytest bench --device cuda --collect-only -q -p no:cacheprovider || FAILED+=(collect)
    "$PYTHON" bench/plan.py || FAILED+=(plan)
else
    step build 150 "${BUILD[@]}" || fail build
    step smoke 60 "$PYTHON" -m gpu.small_case --apart --seconds 50 || fail smoke 40

    STORE=$OUT/$("$PYTHON" -c 'import store, torch; print(store.card_file(torch.cuda.get_device_name()).name)')
    rm -f "$STORE"
    RESERVE=0 RESUME=() UNTIL=$((SECONDS_IN_ALL - LATER))
    # Status 9: an error in a kernel has made the card unusable for its process; another goes on with what is left, which
    # is less each time. The settings are named, since pytest seeks them above all files in its arguments, the store too.
    for ((n = 1; ; n++)); do
        NAME=measure-$n LEFT=$((UNTIL - SECONDS))
        step "$NAME" $((LEFT + 10)) "$PYTHON" -m pytest -c bench/pytest.ini bench --device cuda -q -p no:cacheprovider \
            --seconds "$LEFT" --save-results --store="$STORE" "${RESUME[@]}"
        status=$?
        ((status == 0)) || fail "$NAME" 40
        ((status == 9 && UNTIL > SECONDS)) || break
        RESUME=(--resume)
    done
    [[ -s $STORE ]] && cp "$STORE" bench/results/

    mapfile -t FILES < <("$PYTHON" -m gpu.pick_tests 2>"$LOGS/left-out.log")
    WORKERS=()
    "$PYTHON" -c 'import xdist' 2>/dev/null && WORKERS=(-n 4)
    # The tests make PyTorch deterministic, and cuBLAS then needs this workspace.
    PYTEST=(env CUBLAS_WORKSPACE_CONFIG=:4096:8 OMP_NUM_THREADS=4 "$PYTHON" -m pytest -q -p no:cacheprovider
        -p gpu.lost_card --continue-on-collection-errors --maxfail=40 "${WORKERS[@]}")

    # run_tests NAME LIMIT ARGUMENT...: tests of the card. Status 9: an error in a kernel has made the card unusable for
    # its process; another goes on with what is left, which is less each time.
    run_tests() {
        local name done=$LOGS/$1.done end=$((SECONDS + $2)) left n status stem=$1
        shift 2
        for ((n = 1; ; n++)); do
            name=$stem-$n left=$((end - SECONDS))
            # Near the end no test begins, so that pytest can tell which have failed.
            step "$name" "$left" "${PYTEST[@]}" -m cuda --done "$done" --each 30 --within $((left * 4 / 5)) "$@"
            status=$?
            ((status == 0)) || fail "$name" 40
            tail -n 2 "$LOGS/$name.log"
            ((status == 9 && end > SECONDS)) || break
        done
    }
    # First the tests that only a card can run; then the ops' tests of both devices, except those that compile.
    FIRST=() REST=()
    for file in "${FILES[@]}"; do
        case ${file##*/} in
        test_cuda_ops.py | test_cuda_network.py | test_cuda_graphs.py | test_adamw.py | test_random.py | test_launches.py | \
            test_mlp_composed.py | test_mlp_train_steps.py) FIRST+=("$file") ;;
        test_cuda_*.py) ;; # of the kernels on the host
        *) REST+=("$file") ;;
        esac
    done
    ((${#FIRST[@]})) && run_tests tests-first "$(share 50 90)" "${FIRST[@]}"
    ((${#REST[@]})) && run_tests tests-rest "$(share 45 90)" -k "not compile and not registration and not errors" "${REST[@]}"
    [[ -s $LOGS/left-out.log ]] && cat "$LOGS/left-out.log"
    rm -f "$LOGS/left-out.log"

    SANITIZER=$(find_tool compute-sanitizer)
    if [[ -n $SANITIZER ]]; then
        LIMIT=$(share 75 120)
        pids=() tools=(memcheck racecheck)
        for tool in "${tools[@]}"; do
            OURS=()
            # Races are sought in these kernels alone: cuBLAS's own would take minutes.
            [[ $tool == racecheck && $("$SANITIZER" --help 2>&1) == *--kernel-regex* ]] &&
                OURS=(--kernel-regex kns=missdiff)
            # Without PyTorch's cache each tensor is an allocation of its own, so an access past its end shows.
            step "$tool" "$LIMIT" env PYTORCH_NO_CUDA_MEMORY_CACHING=1 "$SANITIZER" --tool "$tool" --error-exitcode 9 \
                --report-api-errors no "${OURS[@]}" "$PYTHON" -m gpu.small_case &
            pids+=($!)
        done
        for i in "${!tools[@]}"; do
            wait "${pids[$i]}" && continue
            if grep -qi "device not supported" "$LOGS/${tools[$i]}.log"; then
                NOTES+=("${tools[$i]}: skipped, compute-sanitizer does not support this machine's device")
            else
                fail "${tools[$i]}"
            fi
        done
    else
        NOTES+=("memcheck, racecheck: skipped, compute-sanitizer was not found")
    fi

    PROFILER=$(find_tool ncu)
    if [[ -n $PROFILER ]]; then
        for op in perturb mlp_sample; do
            step "ncu-$op" "$(share 50 40)" "$PROFILER" --set basic --clock-control none --kernel-name-base function \
                --kernel-name "regex:run_(grid|narrow|wide)" "$PYTHON" -m gpu.small_case --only "$op" && continue
            # A machine may keep its hardware counters to itself; that is no fault of the kernels.
            NOTES+=("ncu-$op: no profile; the end of its log is: $(tail -n 1 "$LOGS/ncu-$op.log" 2>/dev/null)")
        done
    else
        NOTES+=("profiles: skipped, ncu was not found")
    fi
fi

# Last, since a caller may see the end of the output alone.
[[ -z $DRY && -s $STORE ]] && "$PYTHON" -m gpu.summary "$STORE" 2>&1 | tee "$LOGS/summary.log"
for line in "${NOTES[@]}"; do echo "$line"; done
pack
echo "all: $SECONDS s; logs in $LOGS, figures and all logs in $OUT"
if ((${#FAILED[@]})); then
    echo "FAILED: ${FAILED[*]}"
    exit 1
fi
