#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""table.py FOLDER NAMES…: prints the results of optimize next to the results of hyperfine. Fails if a shipped result exceeds the limit."""

import json
import os
import sys

work, names = sys.argv[1], sys.argv[2:]
broken, agree, rows = [], 0, []
for name in names:
    if not os.path.exists(f"{work}/{name}.done"):
        continue
    report, check = json.load(open(f"{work}/{name}.json")), json.load(open(f"{work}/{name}.done"))
    wall, load, language, system = open(f"{work}/{name}.wall").read().split("\t")
    shipped = report["ship"]["level"]
    level = next(level for level in report["levels"] if level["name"] == check["level"])
    before = report["measured"][0].get("simulated", {}).get("instructions", {}).get("before")
    instructions = 100 * (level["instructions"] / before - 1) if before and level["instructions"] else None
    if shipped != "none":
        if check["low"] > 1:
            broken.append(f"{name} is slower: {check}")
        if instructions is not None and instructions > 1:
            broken.append(f"{name} executes {instructions:.1f} % more")
        if not check["same_output"]:
            broken.append(f"{name} prints something else")
    said = level["cpu_time"]
    judged = f"{said['ratio']:.3f} ({said['lower']:.3f} to {said['upper']:.3f})" if said else "not measured"
        # Two results disagree if their 95 % intervals do not overlap.
    fits = said is None or (check["low"] <= max(said["lower"], said["upper"]) and check["high"] >= min(said["lower"], said["upper"]))
    agree += fits
    tried = ", ".join(level["name"] for level in report["levels"] if level["not_built"] is None)
    changed = "–" if instructions is None else f"{instructions:+.1f} %"
    rows.append(f"| {name} | {language} | {system.strip()} | {int(wall) // 60}:{int(wall) % 60:02} | {tried} | {shipped} | {report['verdict']['code']} | {check['level']} | {judged} | {changed} | {check['ratio']:.3f} ({check['low']:.3f} to {check['high']:.3f}){', eval' * (check.get('judge') == 'eval')} | {'yes' if fits else 'no'} | {load} |")
print("Times are of a machine that did other work too; `load` is its load average at the start.\n")
print("| program | language | build | wall time | levels built | shipped | verdict | level compared | CPU time by optimize | instructions | CPU time by hyperfine or eval | agree | load |")
print("|---|---|---|--:|---|---|---|---|--:|--:|--:|---|--:|")
print("\n".join(rows))
if len(rows) < len(names):
    print(f"\nNot run yet: {', '.join(name for name in names if not os.path.exists(f'{work}/{name}.done'))}.")
print(f"\n{agree} of {len(rows)} agree: the intervals of `optimize`, over layouts, and of hyperfine or `sediment eval`, over runs of one file each, have a number in common.")
for line in broken:
    print(line, file=sys.stderr)
sys.exit(1 if broken else 0)
