#!/bin/bash
# Checks and times attnc on this machine's GPU, in less than four minutes.
#
# usage: run.sh [BUILD]
#
# BUILD is a build folder with bin/attnc and bin/attn_device_timing; by default
# one is made in build/device (a build from nothing takes longer than the rest).
# Every example is checked against the oracle on the device, for each target
# that the device runs; prefill, decode and Longformer are timed, and PyTorch
# with them where python3 has it. Prints one JSON object. Exit code: 0 all
# checks passed, 1 some did not, 2 something could not be run, 3 there is no
# device.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
root=$(dirname "$(dirname "$here")")

say() { printf 'device: %s\n' "$*" >&2; }

build=${1:-}
if [[ -z $build ]]; then
  build=$root/build/device
  say "building in $build"
  cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER="${CC:-clang-22}" -DCMAKE_CXX_COMPILER="${CXX:-clang++-22}" >&2
  ninja -C "$build" attnc attn_device_timing >&2
fi
attnc=$build/bin/attnc timing=$build/bin/attn_device_timing
for program in "$attnc" "$timing"; do
  [[ -x $program ]] || { say "there is no $program"; exit 2; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
targets=(cuda-sm80 cuda-sm90)
say "compiling what is timed"
"$attnc" compile "$here/timed.attn" --target "$(IFS=,; echo "${targets[*]}")" \
  -o "$work/timed.so" || exit 2
"$timing" --cases >"$work/cases.json"

if ! device=$("$timing" --device); then
  say "no device: $device"
  exit 3
fi
say "on $device"
start=$SECONDS

export ATTN_CHECK_ON_DEVICE=1
: >"$work/checks"
for target in "${targets[@]}"; do
  # A target that the device does not run is no failure of the examples.
  [[ $target == cuda-sm90 && $device == *cuda-sm8?\) ]] && continue
  for example in "$root"/examples/*.attn; do
    if (( SECONDS - start < 100 )); then
      said=$(timeout 30 "$attnc" check "$example" --target "$target" --cases 12 2>&1) ||
        said="exit code $?: $said"
    else
      said="not checked: no time was left"
    fi
    printf '%s %s %s\n' "$target" "$(basename "$example")" "${said//$'\n'/; }" \
      >>"$work/checks"
  done
done
say "checked after $(( SECONDS - start )) s"

: >"$work/torch.json"
if command -v python3 >/dev/null; then
  timeout 70 python3 "$here/torch_times.py" "$work/cases.json" 45 \
    >"$work/torch.json" || : >"$work/torch.json"
fi
say "PyTorch done after $(( SECONDS - start )) s"

timeout 60 "$timing" "$work/timed.so" "$work/checks" "$work/torch.json" 20
