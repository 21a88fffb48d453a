# SPDX-License-Identifier: MIT OR Apache-2.0
# Prints a table row: the result of `optimize --json` for a command, the result of hyperfine on the same files, and whether the two agree.
# Usage: agree.py NAME OPTIMIZE.json HYPERFINE.json
import json
import math
import sys

T = {4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306}  # 97.5 % quantiles of Student's t

name, optimized, timed = sys.argv[1:]
measured = json.load(open(optimized))["measured"][0]["cpu_time"]
results = json.load(open(timed))["results"]
times = [result["user"] + result["system"] for result in results]
before, after = times[: len(times) // 2], times[len(times) // 2 :]


def mean(values):
    return sum(values) / len(values)


def error(values):
    return sum((value - mean(values)) ** 2 for value in values) / (len(values) - 1) / len(values)


saved = 1 - mean(after) / mean(before)
errors = error(before), error(after)
freedom = sum(errors) ** 2 / sum(each**2 / (len(before) - 1) for each in errors) if sum(errors) else 8
half = T[max(4, min(8, int(freedom)))] * math.sqrt(sum(errors)) / mean(before)
lower, upper = saved - half, saved + half
answer = measured.get("answer", "not judged")
agrees = {
    "saves": upper > 0 and measured.get("lower_percent", 0) <= 100 * upper and measured.get("upper_percent", 0) >= 100 * lower,
    "costs": lower < 0 and measured.get("lower_percent", 0) <= 100 * upper and measured.get("upper_percent", 0) >= 100 * lower,
    "unknown": lower < measured.get("detectable_percent", 0) / 100 and upper > -measured.get("detectable_percent", 0) / 100,
}.get(answer, lower < 0.005 and upper > -0.005)
says = measured.get("in_words") or measured.get("not_judged")
print(f"| {name} | {says} | {mean(before):.3f} s -> {mean(after):.3f} s: {100 * saved:+.1f} % ({100 * lower:+.1f} to {100 * upper:+.1f} %) | {'yes' if agrees else 'no'} |")
