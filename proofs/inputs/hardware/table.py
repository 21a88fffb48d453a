# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints a table of ratios from an evaluation's reports, and compares the first event of the default order with its peer.

    table.py EVENT... -- TITLE=REPORT.json...

Exits with 1 if the claim on cycles does not hold; other events are told without a claim.
"""

import json
import math
import sys

DEFAULT = "engine"


def comparisons(report, event):
    """Each build's ratio to the baseline with its interval; all None if the event was not counted."""
    found = {}
    for name, metric in report["workloads"][0]["metrics"].items():
        if name.split(":")[0] != event:
            continue
        for comparison in metric["comparisons"]:
                        # An interval needs more than one run.
            effect = comparison["effect"] or {"estimate": comparison["estimate"]}
            ends = [effect.get(key) for key in ("estimate", "lower", "upper")]
            found[comparison["build"]] = [None if end is None else math.exp(end) for end in ends]
    return found


def cell(values):
    if values is None:
        return "not counted"
    ratio, lower, upper = values
    return f"{ratio:.3f}" if lower is None else f"{ratio:.3f} ({lower:.3f}–{upper:.3f})"


def table(arguments):
    """Prints the table for the command line. Returns the first event, and for each title the ratios of this event by build."""
    split = arguments.index("--")
    events, reports = arguments[:split], arguments[split + 1 :]
    print("| program, input | order | " + " | ".join(events) + " |")
    print("|---|---|" + "--:|" * len(events))
    found = {}
    for argument in reports:
        title, path = argument.rsplit("=", 1)
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        by_event = {event: comparisons(report, event) for event in events}
        for build in (build["name"] for build in report["builds"] if not build["probe"]):
            if build in by_event[events[0]]:
                print(f"| {title} | {build} | " + " | ".join(cell(by_event[event].get(build)) for event in events) + " |")
        found[title] = by_event[events[0]]
    return events[0], found


def main():
    event, found = table(sys.argv[1:])
    logs, above = [], []
    for title, by_build in found.items():
        ratio, lower, _ = by_build[DEFAULT]
        logs.append(math.log(ratio))
        if lower is not None and lower > 1:
            above.append(title)
    mean = math.exp(sum(logs) / len(logs))
    print(f"\nThe default order has {mean:.3f} of CDSort's {event}, in geometric mean over {len(logs)} cells; ", end="")
    print(f"wholly above 1: {', '.join(above) or 'none'}.", end="")
    if event != "cycles":
        print()
        return
    holds = mean <= 1.0 and not above
    print(f" The claim, at most 1.000 and none above, {'holds' if holds else 'does not hold'}.")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
