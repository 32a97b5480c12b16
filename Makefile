# For OpenBench, which calls `make EXE=NAME` and then `./NAME bench`. Everybody else uses cargo.
EXE ?= batch-first
# What cargo builds; .ci/run asks for what it has built already.
CARGO_ARGUMENTS ?= -p batch-first

.PHONY: all
all:
	cargo build --release $(CARGO_ARGUMENTS)
	cp -f "$${CARGO_TARGET_DIR:-target}/release/batch-first" "$(EXE)"
