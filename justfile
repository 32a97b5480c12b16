# One line each; `just --list` shows them.

# The engine, optimised
build:
    cargo build --release

# Every test but Burn's and GPUs'
test:
    cargo nextest run --workspace --release --features batch-first/queue

# Format and lints, as the checks want them
lint:
    cargo fmt --all --check && cargo clippy --release --workspace --features batch-first/queue --all-targets -- -D warnings

# Everything that must pass for every change
ci:
    .ci/run

# Analyse a position, e.g. `just analyze --fen "8/8/8/8/8/8/4P3/K6k w - - 0 1"`
analyze *ARGS:
    cargo run --release -- analyze {{ARGS}}

# The engine through python-chess and strange input
check-uci:
    cargo build --release && scripts/check_uci.py

# The rules against python-chess
judge:
    scripts/judge_rules.py

# A match against Stockfish at a level, e.g. `just level 1800 100 200ms`
level ELO='1350' GAMES='10' TIME='200ms':
    cargo run --release -- match --games {{GAMES}} --movetime {{TIME}} --margin 300ms --engine self --engine '/usr/games/stockfish; UCI_LimitStrength=true; UCI_Elo={{ELO}}; name=Stockfish {{ELO}}'

# Look at new answers of snapshot tests
review:
    cargo insta review

# The kernels that Miri can follow, for undefined behaviour (needs a nightly toolchain with Miri)
miri:
    MIRIFLAGS=-Zmiri-disable-isolation RUSTFLAGS='-C target-feature=+avx2,+fma' cargo +nightly miri test --target-dir target/miri -p batch-first-eval --test agreement -- a_tiny_network_agrees

# Evaluations per second by code path and batch size
bench-eval *ARGS:
    cargo run --release -- bench eval {{ARGS}}

# Our evaluation against ONNX Runtime and OpenVINO in one run (pip install onnx onnxruntime openvino numpy)
bench-peers *ARGS:
    cargo build --release && scripts/bench_peers.py {{ARGS}}

# A network of Leela's: ours, Leela Chess Zero, ONNX Runtime and OpenVINO in one run
bench-leela NETWORK *ARGS:
    cargo build --release && scripts/bench_leela.py {{NETWORK}} {{ARGS}}

# Networks on a GPU, or on Mesa's software Vulkan (mesa-vulkan-drivers): every kind of layer, training, real positions
gpu DEVICE='vulkan:0':
    cargo build --profile gpu-check -p batch-first -p batch-first-eval -p batch-first-train --features batch-first/untuned-wgpu --bins --lib --test burn
    cargo test --profile gpu-check -p batch-first -p batch-first-eval -p batch-first-train --features batch-first/untuned-wgpu --lib gpu::
    BATCH_FIRST_TRAIN_ON={{DEVICE}} cargo test --profile gpu-check -p batch-first -p batch-first-eval -p batch-first-train --features batch-first/untuned-wgpu --test burn -- devices_that outputs_equal half_precision
    scripts/check_gpu_agreement.sh target/gpu-check/batch-first {{DEVICE}}
