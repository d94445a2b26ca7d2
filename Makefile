# run, test and conformance need a Rust toolchain only; bench and fixtures make a Python
# environment of their own, bench-env.
CORPUS ?= ../shared

# Without incremental compilation, which takes a tenth more from cold; `cargo test` has it.
export CARGO_INCREMENTAL = 0

.PHONY: run test browser embedding digests mutations mutations-openvino fuzz hunt torch-ops onnx-nodes faults soak allocations races miri accuracy sanitize check conformance release bench sbom operations schemas fixtures picture static aarch64

run:
	cargo run --release --quiet --bin irrun -- models/swin_block/model.xml --input models/swin_block/input_0.npy

# What stands beside the kernels and the runtime is tested with each further instruction set of the machine, and so
# is what plans pack, in the same executables: `irrun` is named so that packages have the same features. The first
# tests use the widest; the others need fewer random cases. AMX is emulated where AVX512-BF16 is there and AMX is not.
cpu_has = $(shell grep -qw $(1) /proc/cpuinfo 2>/dev/null && echo $(2))
FURTHER = portable $(call cpu_has,avx512vl,avx2) $(call cpu_has,avx512_bf16,avx512 amx)
test:
	cargo test --workspace
	set -e; for isa in $(FURTHER); do PROPTEST_CASES=16 IRRUN_ISA=$$isa \
		cargo test --quiet -p irrun -p irrun-runtime -p irrun-kernels --lib --test prepack; done

# The pages of `irrun graph` in a headless Chromium, which IRRUN_BROWSER=… names where PATH does not. MODEL=…
# tries the page of a model of one's own, too, and tells how long it took to open.
browser:
	$(if $(MODEL),PAGE_MODEL="$(abspath $(MODEL))" )cargo test --workspace --test browser -- --include-ignored --nocapture

# A project outside of the workspace, built as the README says in its dev and its release profile.
embedding:
	cargo test --workspace --test embedding -- --include-ignored

# The digests of all fixtures and models anew, then the same with every instruction set and 1 to 7 threads.
digests:
	IRRUN_UPDATE=1 cargo test --workspace --test digests

# Other and more changes of every fixture than the tests try; SEED and COUNT choose them.
SEED ?= 2
COUNT ?= 50
mutations:
	MUTATIONS=$(COUNT) MUTATION_SEED=$(SEED) cargo test --workspace --test mutations -- --nocapture

# The same changes with OpenVINO: how each ends, counted.
KEPT = target/mutations
mutations-openvino: bench-env/.ready
	rm -rf $(KEPT)
	mkdir -p $(KEPT)
	MUTATIONS_KEPT=$(abspath $(KEPT)) MUTATIONS=$(COUNT) MUTATION_SEED=$(SEED) \
		cargo test --workspace --test mutations -- --nocapture
	bench-env/bin/python fuzz/mutations.py $(KEPT)

# A fuzz target with libFuzzer and AddressSanitizer for some minutes, from what is kept below fuzz/corpus. What
# fails is written below fuzz/artifacts, and new inputs below fuzz/target/corpus. Stable Rust takes the flags
# of the unstable one with RUSTC_BOOTSTRAP. Builds for some 20 minutes at first, in a directory of its own.
TARGET ?= run
MINUTES ?= 5
FUZZ_FLAGS = -Zsanitizer=address -Cpasses=sancov-module \
	-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
fuzz:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="$(FUZZ_FLAGS) --cfg fuzzing" \
		cargo build --manifest-path fuzz/Cargo.toml --bin $(TARGET) --target $(STATIC)
	mkdir -p fuzz/artifacts/$(TARGET) fuzz/target/corpus/$(TARGET)
	fuzz/target/$(STATIC)/debug/$(TARGET) -max_total_time=$$(($(MINUTES) * 60)) -timeout=30 \
		-rss_limit_mb=4096 -artifact_prefix=fuzz/artifacts/$(TARGET)/ -print_final_stats=1 \
		fuzz/target/corpus/$(TARGET) fuzz/corpus/$(TARGET)

# Random graphs, COUNT of them from number SEED on, run by irrun and by OpenVINO's CPU plugin; what they
# disagree about is told by cause. All findings are written to target/hunt/SEED.jsonl.
hunt: bench-env/.ready
	nice bench-env/bin/python fuzz/hunt.py --seed $(SEED) --count $(COUNT)

# Operations of PyTorch, COUNT of them from FIRST on, run by irrun, OpenVINO's CPU plugin and PyTorch.
FIRST ?= 0
torch-ops: bench-env/.ready
	cargo build --release --bin irrun
	bench-env/bin/pip install -q expecttest
	nice bench-env/bin/python fuzz/torch_ops.py --irrun target/release/irrun --first $(FIRST) --count $(COUNT)

# Test cases of ONNX's operators, COUNT of them from FIRST on, run by irrun and OpenVINO's CPU plugin.
onnx-nodes: bench-env/.ready
	cargo build --release --bin irrun
	nice bench-env/bin/python fuzz/onnx_nodes.py --irrun target/release/irrun --first $(FIRST) --count $(COUNT)

# More kills at more moments than the tests try.
KILLS ?= 1000
faults:
	FAULTS=$(KILLS) cargo test --workspace --test faults

# A session that runs so often with changing shapes: its memory stays flat.
RUNS ?= 100000
soak:
	SOAK=$(RUNS) cargo test --workspace --test soak -- --nocapture

# Each allocation of a small run refused in turn; STEP=97 tries every 97th, as the tests do.
STEP ?= 1
allocations:
	ALLOCATIONS=$(STEP) cargo test --workspace --test allocations -- --nocapture

# Sessions beside each other under ThreadSanitizer. The standard library is built with it too, from its
# source; else locks and threads of it would be unknown to it. Builds for some 20 minutes, in a directory of
# its own.
races:
	rustup component add rust-src
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR=target/races \
		cargo test -Zbuild-std --workspace --test threads --target $(STATIC)

# What Miri can interpret: memory, scratchpads and threads of the kernels, then tensors, on the portable
# kernels. Left out are a test of buffers of many megabytes and two of memory that there is not: they take
# Miri too long, or end it. It needs a nightly toolchain.
MIRI = IRRUN_ISA=portable CARGO_TARGET_DIR=target/miri \
	MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-env-forward=IRRUN_ISA" cargo +nightly miri test
miri:
	rustup toolchain install nightly --profile minimal --component miri,rust-src
	$(MIRI) -p irrun-kernels --lib -- base::affinity base::scratch base::crowd base::aligned_buf \
		--skip zeroed_buffers --skip no_memory
	$(MIRI) -p irrun-runtime --lib -- tensor:: memory::pool --skip memory_is_taken

# Errors of floating-point kernels in units in the last place, beside OpenVINO's and NumPy's: the tables of
# docs/numerics.md.
accuracy: bench-env/.ready $(if $(IRRUN),,release)
	bench-env/bin/python fixtures/accuracy.py $(or $(IRRUN),$(RELEASE))

# All cases with AddressSanitizer, optimised and as written. It is a flag of unstable Rust, which the stable
# compiler takes with RUSTC_BOOTSTRAP; the standard library itself is not instrumented. Builds for some 20
# minutes, in a directory of its own.
SANITIZED = target/sanitize/$(STATIC)/debug/irrun
sanitize:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/sanitize \
		cargo build --workspace --bin irrun --target $(STATIC)
	$(SANITIZED) test $(EXCEPT) models fixtures $(wildcard $(CORPUS)/conformance)
	$(SANITIZED) test $(call except,$(MUST_FAIL_AS_WRITTEN)) --no-optimize \
		models fixtures $(wildcard $(CORPUS)/conformance)

check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# One file that needs nothing of the system that it runs on, not even a C library, for x86-64
# Linux. It also has the C library, so crates are optimised across each other, addresses are packed,
# and code that is there twice is kept once.
STATIC = x86_64-unknown-linux-gnu
static:
	RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs -C link-arg=-Wl,--icf=all" \
		CARGO_PROFILE_RELEASE_LTO=fat cargo build --release --bin irrun --target $(STATIC)
	@echo target/$(STATIC)/release/irrun

# Every case of a collection, optimised and as written. docs/numerics.md argues those that must fail,
# the second as written only; a collection may lack them, and irrun takes no name that no case has.
# IRRUN=… tries an executable that is there already.
MUST_FAIL = test_div_int32_trunc
MUST_FAIL_AS_WRITTEN = $(MUST_FAIL) test_attention_4d_causal_fp16_expanded
except = $(foreach case,$(1),\
	$(if $(shell find -L $(CORPUS)/conformance -name $(case)),--expect-failure $(case)))
EXCEPT = $(call except,$(MUST_FAIL))
conformance: $(if $(IRRUN),,release)
	$(or $(IRRUN),$(RELEASE)) test $(EXCEPT) $(CORPUS)/conformance
	$(or $(IRRUN),$(RELEASE)) test $(call except,$(MUST_FAIL_AS_WRITTEN)) --no-optimize $(CORPUS)/conformance

RELEASE = ./target/release/irrun
release:
	cargo build --release --bin irrun

# Compares with the peers on the models of a collection, in about three quarters of an hour on an idle machine, and
# writes a page below docs/performance/machines: BENCH_FLAGS="--machine NAME" names it.
# BENCH_FLAGS=--quick tries whether everything runs.
bench: bench-env/.ready
	bench-env/bin/python benches/run.py --corpus $(CORPUS) $(BENCH_FLAGS)

bench-env/.ready: benches/requirements.txt
	python3 -m venv bench-env
	bench-env/bin/pip install --quiet --requirement benches/requirements.txt
	touch $@

# What the executable for x86-64 Linux consists of, as CycloneDX: target/irrun.cdx.json. The tool writes a
# list beside every crate; that of the binary has all of them.
sbom:
	command -v cargo-cyclonedx >/dev/null || cargo install --locked cargo-cyclonedx
	cargo cyclonedx --manifest-path crates/irrun/Cargo.toml --format json --target $(STATIC) \
		--override-filename irrun.cdx
	mkdir -p target
	mv crates/irrun/irrun.cdx.json target/
	rm -f crates/*/irrun.cdx.json
	@echo target/irrun.cdx.json

# The page of operations, from the table.
operations docs/operations.md:
	cargo test --quiet --workspace --test documents --no-run
	target/debug/irrun ops --markdown > docs/operations.md.new
	mv docs/operations.md.new docs/operations.md

# What programs read and write as JSON, from the types.
schemas:
	mkdir -p docs/schema
	IRRUN_UPDATE=1 cargo test --quiet --workspace --test schemas

# The pictures: in README.md of what the commands print, in architecture.md of the layers.
picture:
	python3 docs/layers.py
	IRRUN_UPDATE=1 cargo test --workspace --test documents

# Case folders below fixtures/, with what OpenVINO computes.
fixtures: bench-env/.ready
	bench-env/bin/python fixtures/make.py

# The bits of another processor: the cases below fixtures/ and those of the collection, on an emulated
# AArch64. Needs rustup and qemu-aarch64-static (Debian: qemu-user-static).
ARM = aarch64-unknown-linux-musl
SAMPLES = models fixtures $(wildcard $(CORPUS)/conformance)
EMULATED = qemu-aarch64-static target/$(ARM)/release/irrun
aarch64: bench-env/.ready
	rustup target add $(ARM)
	cargo build --release --bin irrun
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld \
		cargo build --release --bin irrun --target $(ARM)
	$(EMULATED) test $(EXCEPT) $(SAMPLES)
	$(EMULATED) test models fixtures --digests docs/digests/optimised.txt
	$(EMULATED) test models fixtures --no-optimize --digests docs/digests/as-written.txt
	bench-env/bin/python fixtures/across.py target/release/irrun "$(EMULATED)" $(SAMPLES)
