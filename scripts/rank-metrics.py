#!/usr/bin/env python3
"""Writes crates/train/tests/rank_metrics.json: rank correlations as scipy computes them (made with scipy 1.17.1)."""
import json
import pathlib

import numpy as np
from scipy import stats

rng = np.random.default_rng(7)


def case(name, x, y):
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    n = len(x)
    signs = np.sign(x[:, None] - x[None, :]) * np.sign(y[:, None] - y[None, :])
    return {
        "name": name,
        "x": x.tolist(),
        "y": y.tolist(),
        "tau_a": float(signs.sum() / (n * (n - 1))),
        "tau_b": float(stats.kendalltau(x, y, variant="b").statistic),
        "weighted_tau": float(stats.weightedtau(x, y).statistic),
        "spearman": float(stats.spearmanr(x, y).statistic),
    }


noise = rng.normal(size=60)
labels = rng.integers(-5, 6, size=80)
cases = [
    case("two", [1, 2], [3, 4]),
    case("reversed", [1, 2, 3, 4, 5], [5, 4, 3, 2, 1]),
    case("no ties", np.round(noise, 3), np.round(noise + rng.normal(size=60), 3)),
    case("ties in the labels", np.round(labels + 3 * rng.normal(size=80), 2), labels * 100),
    case("ties on both sides", rng.integers(0, 4, size=50), rng.integers(0, 3, size=50)),
    case("unrelated", np.round(rng.normal(size=33), 3), np.round(rng.normal(size=33), 3)),
    case("one large value", [0, 0, 0, 0, 110000], [-2, 1, 0, 3, 2]),
]
target = pathlib.Path(__file__).parent.parent / "crates/train/tests/rank_metrics.json"
target.write_text(json.dumps(cases) + "\n")
