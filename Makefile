# What one does with Tonearm. Everything is built in release mode, and tests are chosen from the whole workspace
# (--workspace --test, not -p): with -p alone Cargo takes other features of dependencies, and builds all of them again.
#
#   make run      a disk, served: a file system copied in, the server killed, and what comes out verified
#   make test     everything that has to hold: format, lints, tests, power cuts, fuzzing, real clients
#   make bench    in virtual time, then SQLite, then against nbdkit and qemu-nbd, on this machine's disk (over an
#                 hour; quiet, please)
#   make bench-sqlite    SQLite alone, on Tonearm and on files
#   make fuzz     SECONDS=60 for each target
#   make crash    SECONDS=60 SEED=1: power cuts and faults of drives for as long as you like
#   make deps     the programs that the tests drive (installs them when root)

CARGO ?= cargo
SECONDS ?= 60
SEED ?= 1
# Power cuts of `make crash-test`, over two processes, and how long `make test` tries.
POINTS ?= 100000
CRASH_SECONDS ?= 60
# How long `make test` fuzzes each of ten targets.
FUZZ_SECONDS ?= 48
BENCH ?=

.PHONY: run test bench bench-sqlite fuzz crash deps run-deps build fmt lint tidy check unit crash-test e2e clean

run: run-deps
	$(CARGO) build --release --locked -p tonearm -p tonearm-sqlite
	scripts/run.sh

build:
	$(CARGO) build --release --locked --workspace

# One stage after the other: each may use all cores, and the first failure is the last line.
test: deps
	@scripts/test.sh $(CRASH_SECONDS) $(FUZZ_SECONDS)

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings

# File length, dependency arrows, licences, documents.
tidy:
	$(CARGO) test --release --locked --workspace --test tidy

unit:
	$(CARGO) test --release --locked --workspace --exclude tonearm-tests --exclude tidy

# End to end: real clients, kill -9, hostile clients.
e2e:
	$(CARGO) build --release --locked -p tonearm -p tonearm-sqlite
	$(CARGO) test --release --locked --workspace --test e2e

crash-test:
	$(CARGO) build --release --locked --workspace --bin crash
	scripts/crash.sh points $(POINTS) $(SEED)

crash:
	$(CARGO) build --release --locked --workspace --bin crash
	scripts/crash.sh seconds $(SECONDS) $(SEED)

fuzz:
	test/fuzz/run.sh $(SECONDS)

# BENCH="--quick", BENCH="--only flush-1 --rounds 9" and the like; --help says more.
bench: deps
	$(CARGO) build --release --locked -p tonearm -p tonearm-bench
# In virtual time first, but for what is asked of the comparison alone.
ifeq (,$(filter --json --list --only,$(BENCH)))
	target/release/tonearm drive bench --drive atlas10k --requests 1000000 --reads 50
	target/release/tonearm drive bench --drive atlas10k --requests 1000000 --reads 50 --scheduler sptf
	target/release/tonearm-bench-virtual $(filter --quick,$(BENCH))
	target/release/tonearm-bench-sqlite $(filter --quick,$(BENCH))
endif
	target/release/tonearm-bench-peers $(BENCH)

# BENCH="--quick", BENCH="--only update-10 --with wal-full --with tonearm-full" and the like; --help says more.
bench-sqlite:
	$(CARGO) build --release --locked -p tonearm -p tonearm-bench
	target/release/tonearm-bench-sqlite $(BENCH)

deps:
	@scripts/deps.sh test

run-deps:
	@scripts/deps.sh run

clean:
	$(CARGO) clean
	rm -rf run test/fuzz/target test/fuzz/corpus test/fuzz/artifacts
