# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes cases.json beside it: python3 -m venv VENV && VENV/bin/pip install scipy==1.17.1 && VENV/bin/python make.py

Every expected value comes from scipy or numpy, or from an enumeration written out here, and none from sediment. Random inputs
are rounded to a few digits so that the file is the whole input.
"""
import itertools
import json
import pathlib

import numpy as np
import scipy
from scipy import stats

draw = np.random.default_rng(20261121)


def sample(count, mean, deviation, digits=4):
    return [round(float(x), digits) for x in draw.normal(mean, deviation, count)]


def distributions():
    points = []
    for freedom in [1, 2, 3.5, 5.76, 12, 48, 98, 1000, 1e6]:
        for t in [0.001, 0.01, 0.5, 1, 2.5, 6.085, 15, 60]:
            points.append({"t": t, "freedom": freedom, "p": float(2 * stats.t.sf(t, freedom))})
    quantiles = [
        {"confidence": c, "freedom": f, "t": float(stats.t.isf((1 - c) / 2, f))}
        for c in [0.5, 0.9, 0.95, 0.99, 0.999]
        for f in [1, 2, 4, 6, 12.7, 39, 250, 1e5]
    ]
    fishers = [
        {"f": f, "freedom": [a, b], "p": float(stats.f.sf(f, a, b))}
        for f in [0.01, 0.5, 1, 3.3, 20, 400]
        for a, b in [(1, 8), (4, 4), (11, 200), (2.5, 60)]
    ]
    normals = [{"z": z, "p": float(stats.norm.sf(z))} for z in [-3, -0.2, 0, 1e-9, 0.7, 1.9, 2.1, 5, 9, 30]]
    return {"student": points, "student_quantile": quantiles, "fisher": fishers, "normal": normals}


def effect(result):
    interval = result.confidence_interval(0.95)
    return {
        "t": float(result.statistic), "freedom": float(result.df), "p": float(result.pvalue),
        "lower": float(interval.low), "upper": float(interval.high),
    }


def two_groups():
    cases = []
    for m, n, shift, ratio in [(5, 5, 0.3, 3), (50, 50, 1.2, 1.3), (7, 30, 0, 0.2), (2, 3, 5, 1), (200, 180, 0.05, 1)]:
        first, second = sample(m, 10 + shift, ratio), sample(n, 10, 1)
        whitney = stats.mannwhitneyu(first, second, method="exact" if max(m, n) <= 25 else "asymptotic")
        levene = stats.levene(first, second, center="median") if min(m, n) > 2 else None
        cases.append({
            "first": first, "second": second,
            "student": effect(stats.ttest_ind(first, second)),
            "welch": effect(stats.ttest_ind(first, second, equal_var=False)),
            "mann_whitney": {"u": float(whitney.statistic), "p": float(whitney.pvalue)},
            "brown_forsythe": None if levene is None else {"f": float(levene.statistic), "p": float(levene.pvalue)},
        })
    tied_first, tied_second = [1, 2, 2, 3, 3, 3, 7], [2, 3, 4, 4, 5, 5, 5, 9]
    whitney = stats.mannwhitneyu(tied_first, tied_second, method="asymptotic")
    cases.append({
        "first": tied_first, "second": tied_second,
        "student": effect(stats.ttest_ind(tied_first, tied_second)),
        "welch": effect(stats.ttest_ind(tied_first, tied_second, equal_var=False)),
        "mann_whitney": {"u": float(whitney.statistic), "p": float(whitney.pvalue)},
        "brown_forsythe": None,
    })
    return cases


def signed_rank_by_enumeration(differences):
    """Every sign pattern of the nonzero differences, with shared ranks."""
    kept = [d for d in differences if d != 0]
    ranks = stats.rankdata(np.abs(kept))
    observed = sum(r for r, d in zip(ranks, kept) if d > 0)
    centre = ranks.sum() / 2
    sums = [float(np.dot(signs, ranks)) for signs in itertools.product([0, 1], repeat=len(kept))]
    extreme = sum(abs(s - centre) >= abs(observed - centre) - 1e-9 for s in sums)
    return float(observed), min(1.0, extreme / len(sums))


def hodges_lehmann(differences):
    means = [(a + b) / 2 for a, b in itertools.combinations_with_replacement(differences, 2)]
    return float(np.median(means))


def paired():
    cases = []
    inputs = [
        sample(7, 0.02, 0.03), sample(12, 0.0, 1.0), sample(40, 0.01, 0.014, 8), sample(300, 0.002, 0.02, 7),
        [1, 2, 2, -1, 3, 3, -2, 4, 0, 0, 5], [0.5, 0.5, 0.5, -0.5, 0.5, 0.5],
    ]
    for differences in inputs:
        result = effect(stats.ttest_1samp(differences, 0))
        if len(differences) <= 14:
            rank_sum, p = signed_rank_by_enumeration(differences)
        elif len(differences) <= 50:
            test = stats.wilcoxon(differences, method="exact", alternative="greater")
            rank_sum = float(test.statistic)
            p = float(stats.wilcoxon(differences, method="exact").pvalue)
        else:
            test = stats.wilcoxon(differences, method="approx", correction=False, alternative="greater")
            rank_sum = float(test.statistic)
            p = float(stats.wilcoxon(differences, method="approx", correction=False).pvalue)
        margin = 0.01
        low = stats.ttest_1samp(differences, -margin, alternative="greater").pvalue
        high = stats.ttest_1samp(differences, margin, alternative="less").pvalue
        cases.append({
            "differences": differences, "t": result, "hodges_lehmann": hodges_lehmann(differences),
            "signed_rank": {"positive_ranks": rank_sum, "p": p},
            "equivalence": {"margin": margin, "p": float(max(low, high))},
        })
    return cases


def adjusted():
    p = [0.001, 0.02, 0.03, 0.04, 0.5, 0.0004, 0.9]
    holm, least = [0.0] * len(p), 0.0
    for rank, index in enumerate(np.argsort(p, kind="stable")):
        least = min(1.0, max(least, p[index] * (len(p) - rank)))
        holm[index] = least
    return {"p": p, "holm": holm, "benjamini_hochberg": stats.false_discovery_control(p).tolist()}


def variance_components():
    """Two builds with three links over five blocks; mean squares by least squares on dummy variables."""
    builds = [[sample(5, 10 + 0.1 * link, 0.2) for link in range(3)] for _ in range(2)]
    rows, y = [], []
    for b, build in enumerate(builds):
        for link, values in enumerate(build):
            for block, value in enumerate(values):
                rows.append((b, b * 3 + link, block))
                y.append(value)
    y = np.array(y)

    def residual(columns):
        design = np.ones((len(y), 1))
        for column in columns:
            keys = sorted({row[column] for row in rows})
            design = np.hstack([design] + [np.array([[row[column] == key] for row in rows], float) for key in keys[1:]])
        return float(np.sum((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2))

    runs = residual([1, 2])
    links = residual([0, 2]) - runs
    link_square, run_square = links / 4, runs / 20
    return {
        "builds": builds,
        "between_links": float(np.sqrt(max(0.0, (link_square - run_square) / 5))),
        "within_links": float(np.sqrt(run_square)),
        "p": float(stats.f.sf(link_square / run_square, 4, 20)),
    }


def steadiness():
    """Least squares on dummies for link and slot; slope of the residuals on time; lag-1 correlation."""
    runs, at = [], 0.0
    for block in range(12):
        order = draw.permutation(3)
        for slot, link in enumerate(order):
            value = round(float(1 + 0.1 * link + (0.05 if slot == 0 else 0) + 0.00001 * at + draw.normal(0, 0.02)), 5)
            runs.append({"link": int(link), "slot": slot, "at": at, "value": value})
            at += 10.0
    y = np.array([run["value"] for run in runs])

    def fit(keys):
        design = np.ones((len(y), 1))
        for key in keys:
            design = np.hstack([design] + [np.array([[run[key] == k] for run in runs], float) for k in (1, 2)])
        return y - design @ np.linalg.lstsq(design, y, rcond=None)[0]

    rest = fit(["link", "slot"])
    square, only_links = float(np.sum(rest ** 2)), float(np.sum(fit(["link"]) ** 2))
    freedom = len(y) - 5
    hours = np.array([run["at"] for run in runs]) / 3600
    centred = hours - hours.mean()
    slope = float(np.dot(centred, rest) / np.dot(centred, centred))
    error = np.sqrt(np.sum((rest - slope * centred) ** 2) / (freedom - 1) / np.dot(centred, centred))
    return {
        "runs": runs, "drift_per_hour": slope, "drift_p": float(2 * stats.t.sf(abs(slope / error), freedom - 1)),
        "autocorrelation": float(np.sum(rest[1:] * rest[:-1]) / square),
        "slot_p": float(stats.f.sf((only_links - square) / 2 / (square / freedom), 2, freedom)),
        "jitter": float(np.sqrt(square / freedom)),
    }


cases = {
    "made_with": f"scipy {scipy.__version__}, numpy {np.__version__}",
    "distributions": distributions(),
    "two_groups": two_groups(),
    "paired": paired(),
    "adjusted": adjusted(),
    "variance_components": variance_components(),
    "steadiness": steadiness(),
}
pathlib.Path(__file__).with_name("cases.json").write_text(json.dumps(cases, indent=1) + "\n")
