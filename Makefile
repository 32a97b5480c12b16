# For OpenBench, which calls `make EXE=NAME` and then `./NAME bench`. Everybody else uses cargo.
EXE ?= batch-first

.PHONY: all
all:
	cargo rustc --release -p batch-first --bin batch-first -- --emit link=$(EXE)
