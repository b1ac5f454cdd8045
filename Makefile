# Commands for Tonearm. Tests are built once, with the profile `checked` and the features of the whole workspace: each stage of
# `make test` runs what the stage `build` has made. All other programs are release builds.
#
#   make run      create and serve a disk, copy a file system in, kill the server, and verify the copy
#   make test     everything that must pass: format, lints, tests, power cuts, fuzzing, real clients
#   make soak     SECONDS=3600: the long campaigns, of which `make test` runs a share: planted faults, power cuts, fuzzing, virtual
#                 machines. The number of commits chooses where it begins. It prints what it has covered.
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
#   make guest    virtual machines with a real kernel, 20 rounds of each kind of power cut and kill; `make test` runs one round of
#                 two kinds. It takes about two hours on 2 cores. ROUNDS=3 makes it shorter.
#   make deps     check for the programs that the tests need; as root on Debian, install them

CARGO ?= cargo
SECONDS ?= 60
SEED ?= 1
# Number of power cuts of `make crash-test` over two processes, and seconds of power cuts in `make test`.
POINTS ?= 100000
CRASH_SECONDS ?= 36
# Seconds for which `make test` fuzzes each of thirteen targets.
FUZZ_SECONDS ?= 2
# Rounds of each test of `make guest`.
ROUNDS ?= 20
BENCH ?=
# Tests of `make e2e` at a time.
E2E_THREADS ?= $(shell echo $$((2 * $$(nproc))))

CHECKED = --profile checked --locked --workspace
# The programs that the tests end to end and the guests run.
export TONEARM_BIN = $(CURDIR)/target/checked/tonearm

.PHONY: run test soak bench bench-sqlite bench-mount fuzz crash deps run-deps build fmt lint tidy unit lab-check lab-docs reference-docs crash-test e2e fs-conformance guest guest-share clean

run: run-deps
	$(CARGO) build --release --locked -p tonearm -p tonearm-sqlite
	scripts/run.sh

# All tests and programs, as every other target of tests needs them.
build:
	$(CARGO) build $(CHECKED) --all-targets

soak: deps
	@scripts/soak.sh $(SECONDS)

# The stages run one after the other, because each may use all cores.
test: deps
	@scripts/test.sh $(CRASH_SECONDS) $(FUZZ_SECONDS)

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy $(CHECKED) --all-targets -- -D warnings

# File length, dependencies between crates, licences, documents.
tidy:
	$(CARGO) test $(CHECKED) --test tidy

unit:
	scripts/unit.sh $(CHECKED) --exclude tonearm-tests --exclude tidy

# The experiments of the laboratory in short, beside the papers' figures: a minute on 2 cores.
lab-check: build
	target/checked/tonearm-lab lab all --quick --check

# Several minutes of processor time. The figures do not depend on the machine, apart from the processor times of aru-overhead.
lab-docs:
	$(CARGO) build --release --locked --workspace --bin tonearm-lab --features tonearm-lab/sqlite
	target/release/tonearm-lab lab all --report docs/results/lab --markdown docs/results/lab.md
	rm docs/results/lab/index.html

# The tests of `tonearm` compare this page with the program.
reference-docs:
	TONEARM_UPDATE_DOCS=1 $(CARGO) test $(CHECKED) --bin tonearm the_reference_is_that_of_this_program

# End to end tests: real clients, kill -9, hostile clients. Most of the time they wait, so more run at a time than there are cores.
e2e: build
	$(CARGO) test $(CHECKED) --test e2e -- --test-threads=$(E2E_THREADS)

# One round of two kinds; the number of commits chooses which.
guest-share: deps build
	scripts/guest.sh
	scripts/guests.sh 2

# Two at a time, because each test has a guest and a server.
guest: deps build
	scripts/guest.sh
	TONEARM_KILL_ROUNDS=$(ROUNDS) $(CARGO) test $(CHECKED) --test guest -- --test-threads=2 --nocapture

# One after the other, because each measures or loads the machine.
fs-conformance: deps build
	TONEARM_FS_CONFORMANCE=long $(CARGO) test $(CHECKED) --test e2e fs_conformance -- --nocapture --test-threads=1

crash-test: build
	scripts/crash.sh points $(POINTS) $(SEED)

crash: build
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
