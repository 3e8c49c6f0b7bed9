#!/usr/bin/env bash
# Installs the library into a new prefix, builds the examples with it, and runs them.   install_examples.sh BUILD SOURCE
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" --component library > "$work/log"
# The library must only export its interface.
library=$(find "$work/prefix" -name libgptcpp.so)
others=$(nm -D --defined-only -C "$library" | grep -v ' A ' | grep -vE ' (gpt_|gptcpp::|(typeinfo|typeinfo name|vtable) for gptcpp::Error)' || true)
if [ -n "$others" ]; then
  echo "exported, but no part of the interface: $others" >&2
  exit 1
fi
readelf -d "$library" | grep -q 'soname: \[libgptcpp.so.0.1\]'

cmake -S "$source/examples" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >> "$work/log"
cmake --build "$work/build" -j2 >> "$work/log"
bin=$work/build
for kind in "" _c; do
  model=$work/model$kind
  "$bin/train$kind" "$model" | grep -q 'step 100: loss'
  "$bin/generate$kind" "$model" "The quick" 20 | grep -q '^The quick'
  "$bin/stream_many$kind" "$model" "The quick" "A lazy dog" "fox" | grep -q '^2: '
  "$bin/tokenizer$kind" "the cat, the cat and the cat" | grep -q 'the same text again'
  "$bin/tokenizer$kind" "the cat" "$model" > "$work/out"
done
cmp "$work/model/model.safetensors" "$work/model_c/model.safetensors"

# The program must give the same results.
for _ in $(seq 200); do printf '%s' 'The quick brown fox jumps over the lazy dog. '; done > "$work/fox.txt"
"$build/gpt" train "$work/fox.txt" --preset tiny --n-layer 2 --n-embd 64 --n-head 4 --n-ctx 64 --steps 100 --warmup 10 \
  --lr 3e-3 --out "$work/run" 2> "$work/out"
cmp "$work/run/last/model.safetensors" "$work/model/model.safetensors"
cmp "$work/run/last/config.json" "$work/model/config.json"
cmp <("$build/gpt" generate "$work/model" "The quick" -n 30 2> "$work/out") <("$bin/generate" "$work/model" "The quick" 30)

status=0
"$bin/generate_c" "$work/nothing" x 2> "$work/out" || status=$?
[ "$status" -eq 2 ]
grep -q 'not found: .*no such file or folder' "$work/out"

if command -v pkg-config > "$work/out"; then
  pc=$(dirname "$(find "$work/prefix" -name gptcpp.pc)")
  flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs gptcpp)
  # shellcheck disable=SC2086
  "${CC:-cc}" -std=c99 -Wall -Wextra -Werror -pedantic "$source/examples/generate.c" $flags -o "$work/by_pkg_config"
fi
echo "the examples compile against the installed library and run"
