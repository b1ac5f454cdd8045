#!/bin/sh
# Builds the fuzz targets on stable Rust with libFuzzer's coverage instrumentation. The flags are those of
# `cargo fuzz build --sanitizer none`. With --target they do not apply to build scripts.
set -eu
cd "$(dirname "$0")"
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="-Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares \
-Ccodegen-units=1 --cfg fuzzing"
cargo build --release --target "$host" --bins
echo "target/$host/release" > target/dir
