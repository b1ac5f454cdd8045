# Commands for Tonearm. All builds are release builds. Tests are selected with --workspace --test and not with -p, because
# with -p alone Cargo chooses other features of dependencies and builds all of them again.
#
#   make run      create and serve a disk, copy a file system in, kill the server, and verify the copy
#   make test     everything that must pass: format, lints, tests, power cuts, fuzzing, real clients
#   make lab-check    all experiments on simulated drives, in short: fails when a bound is missed that is no known miss
#   make lab-docs    run all experiments, and write docs/results/lab.md and its figures from the results
#   make reference-docs    write docs/operations/reference.md from the command line and the metrics
#   make bench    benchmarks in virtual time, of SQLite, and against nbdkit and qemu-nbd on this machine's disk. They
#                 take over an hour and need a quiet machine.
#   make bench-sqlite    only SQLite, on Tonearm and on files
#   make bench-mount     a mount, beside ext4 and a passthrough FUSE file system; needs root
#   make fuzz     SECONDS=60 for each target
#   make crash    SECONDS=60 SEED=1: power cuts and drive faults in the simulator
#   make fs-conformance    all suites for the mounted file system, as root: pjdfstest, a million operations of fsx, stress-ng,
#                 dbench, a directory of a million entries. It takes an hour and prints counts; `make test` runs a share.
#   make guest    virtual machines with a real kernel, 20 rounds of each kind of power cut and kill; `make test` runs a share.
#                 It takes about two hours on 2 cores. ROUNDS=3 makes it shorter.
#   make deps     check for the programs that the tests need; as root on Debian, install them

CARGO ?= cargo
SECONDS ?= 60
SEED ?= 1
# Number of power cuts of `make crash-test` over two processes, and seconds of power cuts in `make test`.
POINTS ?= 100000
CRASH_SECONDS ?= 60
# Seconds for which `make test` fuzzes each of thirteen targets.
FUZZ_SECONDS ?= 25
# Rounds of each test of `make guest`.
ROUNDS ?= 20
# `make guest-share`, and so `make test`, leaves out the tests whose names end in `in_full`.
GUEST_ARGUMENTS ?= --skip in_full
BENCH ?=

.PHONY: run test bench bench-sqlite bench-mount fuzz crash deps run-deps build fmt lint tidy check unit lab-check lab-docs reference-docs crash-test e2e fs-conformance guest guest-share clean

run: run-deps
	$(CARGO) build --release --locked -p tonearm -p tonearm-sqlite
	scripts/run.sh

build:
	$(CARGO) build --release --locked --workspace

# The stages run one after the other, because each may use all cores.
test: deps
	@scripts/test.sh $(CRASH_SECONDS) $(FUZZ_SECONDS)

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings

# File length, dependencies between crates, licences, documents.
tidy:
	$(CARGO) test --release --locked --workspace --test tidy

unit:
	$(CARGO) test --release --locked --workspace --exclude tonearm-tests --exclude tidy

# The experiments of the laboratory in short, beside the papers' figures: half a minute on 2 cores.
lab-check:
	$(CARGO) build --release --locked --workspace --bin tonearm-lab
	target/release/tonearm-lab lab all --quick --check

# Several minutes of processor time. The figures do not depend on the machine.
lab-docs:
	$(CARGO) build --release --locked --workspace --bin tonearm-lab --features tonearm-lab/sqlite
	target/release/tonearm-lab lab all --report docs/results/lab --markdown docs/results/lab.md
	rm docs/results/lab/index.html

# The tests of `tonearm` compare this page with the program.
reference-docs:
	TONEARM_UPDATE_DOCS=1 $(CARGO) test --release --locked --workspace --bin tonearm the_reference_is_that_of_this_program

# End to end tests: real clients, kill -9, hostile clients.
e2e:
	$(CARGO) build --release --locked -p tonearm -p tonearm-sqlite
	$(CARGO) test --release --locked --workspace --test e2e

# Two at a time, because each test has a guest and a server.
guest-share: deps
	scripts/guest.sh
	$(CARGO) build --release --locked -p tonearm -p tonearm-sqlite
	$(CARGO) test --release --locked --workspace --test guest -- --test-threads=2 $(GUEST_ARGUMENTS)

guest:
	TONEARM_KILL_ROUNDS=$(ROUNDS) $(MAKE) guest-share GUEST_ARGUMENTS="--nocapture"

# One after the other, because each measures or loads the machine.
fs-conformance: deps
	$(CARGO) build --release --locked -p tonearm -p tonearm-sqlite
	TONEARM_FS_CONFORMANCE=long $(CARGO) test --release --locked --workspace --test e2e fs_conformance -- --nocapture --test-threads=1

crash-test:
	$(CARGO) build --release --locked --workspace --bin crash
	scripts/crash.sh points $(POINTS) $(SEED)

crash:
	$(CARGO) build --release --locked --workspace --bin crash
	scripts/crash.sh seconds $(SECONDS) $(SEED)

fuzz:
	test/fuzz/run.sh $(SECONDS)

# BENCH="--quick", BENCH="--only flush-1 --rounds 9" and so on; tonearm-bench-peers --help lists the options.
bench: deps
	$(CARGO) build --release --locked -p tonearm -p tonearm-lab -p tonearm-bench
# The virtual-time and SQLite benchmarks are left out when BENCH has an option that only tonearm-bench-peers knows.
ifeq (,$(filter --json --list --only,$(BENCH)))
	target/release/tonearm-lab drive bench --drive atlas10k --requests 1000000 --reads 50
	target/release/tonearm-lab drive bench --drive atlas10k --requests 1000000 --reads 50 --scheduler sptf
	target/release/tonearm-bench-virtual $(filter --quick,$(BENCH))
	target/release/tonearm-bench-sqlite $(filter --quick,$(BENCH))
endif
	target/release/tonearm-bench-peers $(BENCH)

# BENCH="--quick", BENCH="--only update-10 --with wal-full --with tonearm-full" and so on; --help lists the options.
bench-sqlite:
	$(CARGO) build --release --locked -p tonearm -p tonearm-bench
	target/release/tonearm-bench-sqlite $(BENCH)

# BENCH="--quick", BENCH="--only varmail" and so on; --help lists the options.
bench-mount:
	$(CARGO) build --release --locked -p tonearm -p tonearm-bench
	target/release/tonearm-bench-mount $(BENCH)

deps:
	@scripts/deps.sh test

run-deps:
	@scripts/deps.sh run

clean:
	$(CARGO) clean
	rm -rf run test/fuzz/target test/fuzz/corpus test/fuzz/artifacts
