#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""check.py FOLDER REPORT PROGRAM ARGUMENTS ROUNDS JUDGE: compares two builds by hyperfine, one run at a time, in a random order of each round;
or by `sediment eval` (JUDGE is eval). Prints JSON: the ratio of CPU time (user and system) with its interval of 95 % over rounds, and
whether both print the same."""

import json
import math
import os
import random
import subprocess
import sys

folder, report, program, arguments, rounds, judge = sys.argv[1:7]
report = json.load(open(report))
os.chdir(folder)
name = os.path.basename(program)
shipped = report["ship"]["level"]
built = [level["name"] for level in report["levels"] if level["not_built"] is None]
level = shipped if shipped != "none" else built[-1]
after = ".sediment/result" if shipped != "none" else f".sediment/levels/{level}"
sides = [f"./.sediment/levels/before/{name}", f"./{after}/{name}"]
luck = random.SystemRandom()


def output(side):
    return subprocess.run(["sh", "-c", f"{side} {arguments}"], capture_output=True, check=True).stdout


def seconds(side):
    subprocess.run(["hyperfine", "--style", "none", "--warmup", "0", "--runs", "1", "--export-json", "hyperfine.json", f"{side} {arguments}"], check=True, stdout=subprocess.DEVNULL)
    result = json.load(open("hyperfine.json"))["results"][0]
    return result["user"] + result["system"]


def by_hyperfine():
    logs, base = [], []
    for side in sides:
        seconds(side)
    for _ in range(int(rounds)):
        order = [0, 1]
        luck.shuffle(order)
        times = {}
        for side in order:
            times[side] = seconds(sides[side])
        logs.append(math.log(times[1] / times[0]))
        base.append(times[0])
    mean = sum(logs) / len(logs)
    error = math.sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1) / len(logs))
        # Student's t for 95 %, by degrees of freedom. Takes the next smaller number of degrees in the table.
    quantiles = {9: 2.262, 14: 2.145, 19: 2.093, 24: 2.064, 39: 2.023}
    reach = quantiles[max(freedom for freedom in quantiles if freedom < len(logs))] * error
    return mean, mean - reach, mean + reach


def by_eval():
    words = ["sediment", "eval", "quick", "--json", "--primary", "cpu-time", "--runs", rounds, *(f"{side} {arguments}" for side in sides)]
    report = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    effect = report["workloads"][0]["metrics"]["cpu-time"]["comparisons"][0]["effect"]
    return effect["estimate"], effect["lower"], effect["upper"]


same = output(sides[0]) == output(sides[1])
ratio, low, high = (math.exp(value) for value in (by_eval() if judge == "eval" else by_hyperfine()))
print(json.dumps({"level": level, "shipped": shipped, "ratio": ratio, "low": low, "high": high, "judge": judge, "same_output": same, "load": os.getloadavg()[0]}))
