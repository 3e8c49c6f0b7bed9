#!/usr/bin/env bash
# Installs the program into a new prefix and trains with it on two ranks.   install_mpi.sh BUILD
# Exits with 77 if Open MPI is missing on this machine or was missing during the build.
set -euo pipefail
build=$1
command -v mpirun > /dev/null || { echo "skipped: there is no mpirun"; exit 77; }
[ -e "$build/gpt_mpi.so" ] || { echo "skipped: $build was built without MPI"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cmake --install "$build" --prefix "$work/built" > "$work/log"
mv "$work/built" "$work/a prefix"  # the prefix can be moved
ln -s "$work/a prefix/bin/gpt" "$work/gpt"
for file in bin/gptcpp bin/gpt lib/gptcpp/gpt_mpi.so share/man/man1/gpt.1; do
  [ -s "$work/a prefix/$file" ] || { echo "not installed: $file" >&2; exit 1; }
done

shape=(--data tales:20000 --n-layer 1 --n-head 2 --n-embd 16 --n-ctx 16 --batch-size 4 --grad-shards 2 --steps 4
  --warmup 1 --eval-every 0 --threads 1)
"$work/gpt" train "${shape[@]}" --out "$work/one" 2> "$work/log"
run() {
  "$@" 2> "$work/log" || { cat "$work/log" >&2; exit 1; }
}
run mpirun --oversubscribe --bind-to none -n 2 "$work/a prefix/bin/gpt" train "${shape[@]}" --out "$work/two"
run "$work/gpt" launch -n 2 -- train "${shape[@]}" --out "$work/launched"
for out in two launched; do
  cmp "$work/one/last/model.safetensors" "$work/$out/last/model.safetensors"
done

# Without the module, the error must name both places where the program looked for it.
rm "$work/a prefix/lib/gptcpp/gpt_mpi.so"
if mpirun --oversubscribe -n 2 "$work/gpt" train "${shape[@]}" --out "$work/none" 2> "$work/log"; then exit 1; fi
grep -q 'gpt_mpi.so: .*/a prefix/lib/gptcpp' "$work/log"
echo "the installed program trains as two processes"
