#!/usr/bin/env bash
# One session on a machine with a GPU, in at most 8 minutes: gates the native sampler, compares it with the simulated
# kernel coin for coin, and writes the figures into docs/gpu.md.
#
#   benchmarks/gpu_session.sh [--device cuda|cpu] [--out DIR] [--doc FILE] [--seconds N]
#
#   --device cpu   a dry run without a GPU: a stand-in takes the place of the op; the figures go to a copy in DIR
#   --out DIR      where results, reports and logs are left (default: reports/out/gpu)
#   --doc FILE     page that the figures go into (default: docs/gpu.md, or the copy)
#   --seconds N    of all steps together, setting up included (default: 470)
#
#   PYTHON         interpreter that has all that is needed: nothing is installed (default: .venv/bin/python, else
#                  python3, and where the op cannot be called with it, .venv-gpu)
#   OP             what to install there for the op (default: torch==2.9.1 sgl-kernel==0.3.21)
#   WHEELS         folder of wheels: nothing is then asked of a package index
#   CHITREE_CACHE  a cache filled by `chitree fetch` elsewhere; without headers the port in NumPy is compared with
#
# Exit code: 0 all passed; 1 a bias, or a difference that must not be; 2 bad usage; 3 the op cannot run here.
set -uo pipefail

device=cuda out=reports/out/gpu doc='' seconds=470
while (($#)); do
    case "$1" in
        --device | --out | --doc | --seconds)
            (($# > 1)) || { echo "gpu_session: $1 needs a value" >&2; exit 2; }
            declare "${1#--}=$2"
            shift 2
            ;;
        *) echo "gpu_session: no such option: $1" >&2; exit 2 ;;
    esac
done
[[ $device == cpu || $device == cuda* ]] ||
    { echo "gpu_session: --device must be cuda or cpu, got $device" >&2; exit 2; }

cd "$(dirname "$0")/.." || exit 2
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
export CHITREE_DEVICE=$device PYTHONUNBUFFERED=1 NO_COLOR=1
left() { echo $((seconds > SECONDS + 5 ? seconds - SECONDS : 5)); }
say() { printf '\n== %s (%d s so far)\n' "$*" "$SECONDS"; }
worst=0
note() { # exit codes: bias (1) beats all, then what could not run
    if (($1 == 1 || worst == 1)); then worst=1; elif (($1 > worst)); then worst=$(($1 > 3 ? 3 : $1)); fi
}

# ---- Python with chitree and, on a GPU, the op
python=${PYTHON:-}
[[ -n $python ]] || { [[ -x .venv/bin/python ]] && python=.venv/bin/python || python=python3; }
run() { PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" timeout "$(left)" "$python" "$@"; }
why() { # why a sampler cannot run, or nothing
    run -c "from harness.samplers.registry import sampler; print(sampler('$1').unavailable() or '')" 2>"$out/why.log" ||
        echo "chitree cannot run: $(tail -n 1 "$out/why.log")"
}
chitree() { run -m harness "$@"; }
if [[ $device == cpu ]]; then
    export PYTHONPATH="$PWD/tests/gpu/standins/compiled:$PWD/tests/gpu/standins"
    smoke=(--case 'target-only/tiny-1/*' --shrink 4) standard=(--case 'target-only/one-outcome/*' --shrink 2)
    rows=(--suite smoke --rows 64 --group tiny)
    [[ -n $doc ]] || { doc=$out/gpu.md && cp docs/gpu.md "$doc"; }
else
    smoke=() standard=(--shrink 4) rows=(--rows 2048)
    doc=${doc:-docs/gpu.md}
    "$python" -c 'import ctypes, sys; sys.exit(ctypes.CDLL("libcuda.so.1").cuInit(0))' 2>/dev/null ||
        { echo "gpu_session: no CUDA device, or no NVIDIA driver; nothing was installed" >&2; exit 3; }
    command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
fi
own='numpy scipy click rich msgspec'
sim=''
for package in cuda-bindings nvidia-cuda-{nvrtc,runtime,crt,cccl}; do sim+=" $package>=13,<14"; done
op=''
reason=$(why sglang-tree-gpu)
if [[ -n $reason && -z ${PYTHON:-} ]]; then
    echo "gpu_session: $python: $reason"
    [[ $device == cpu ]] || op=${OP:-torch==2.9.1 sgl-kernel==0.3.21}
    say "installing into .venv-gpu: $own $sim $op"
    index=()
    [[ -n ${WHEELS:-} ]] && index=(--no-index --find-links "$WHEELS")
    quiet=(--quiet --disable-pip-version-check)
    pip() { timeout "$(left)" .venv-gpu/bin/python -m pip install "${quiet[@]}" "${index[@]}" "$@"; }
    # A machine may have torch already: its packages stay visible. Word splitting is meant: several requirements.
    # shellcheck disable=SC2086
    "$python" -m venv --system-site-packages .venv-gpu && pip $own $op ||
        { echo "gpu_session: pip failed" >&2; exit 3; }
    # shellcheck disable=SC2086
    pip $sim || echo "gpu_session: without the simulated kernel" >&2
    python=.venv-gpu/bin/python
    reason=$(why sglang-tree-gpu)
fi
[[ -z $reason ]] || { echo "gpu_session: sglang-tree-gpu cannot run here: $reason" >&2; exit 3; }

# ---- gate, compare, write
say "samplers"
chitree samplers | tee "$out/samplers.txt"
against=sglang-tree
prepare="s = __import__('harness.samplers.registry', fromlist=['x']).sampler('sglang-tree')"
run -c "$prepare; assert not s.unavailable(); s.prepare()" 2>"$out/simulated.log" || against=sglang-tree-port
[[ $against == sglang-tree ]] || echo "gpu_session: the simulated kernel cannot run here; comparing with its port" >&2

cited=()
for suite in smoke standard; do
    say "gate, suite $suite"
    declare -n chosen=$suite
    rm -f "$out/$suite/results.json"
    chitree gate -q --sampler sglang-tree-gpu --suite "$suite" "${chosen[@]}" --out "$out/$suite"
    note $?
    [[ -f $out/$suite/results.json ]] && cited+=(--gate "$out/$suite/results.json")
done

say "comparing with $against, coin for coin"
spare=$(($(left) - 60))
run benchmarks/gpu_compare.py "${rows[@]}" \
    --against "$against" --seconds "$((spare > 10 ? (spare < 150 ? spare : 150) : 10))" "${cited[@]}" \
    --doc "$doc" --json "$out/compare.json"
note $?
say "done: $out, figures in $doc"
exit $worst
