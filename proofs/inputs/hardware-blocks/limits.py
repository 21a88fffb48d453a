# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints a table of ratios from an evaluation's reports, and compares the cycles of split functions with the limits.

    limits.py TITLE=LIMIT... -- EVENT... -- TITLE=REPORT.json...

Exits with 1 if a limit is exceeded. Only cycles have limits.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../hardware"))
sys.dont_write_bytecode = True
from table import table  # noqa: E402

LIMITED = "blocks-auto"


def main():
    split = sys.argv.index("--")
    limits = dict(argument.rsplit("=", 1) for argument in sys.argv[1:split])
    event, found = table(sys.argv[split + 1 :])
    print()
    missed = False
    for title, by_build in found.items():
        ratio = by_build[LIMITED][0]
        if event != "cycles" or title not in limits:
            print(f"- {title}: {LIMITED} has {ratio:.3f} of BOLT's {event}.")
            continue
        holds = ratio <= float(limits[title])
        missed = missed or not holds
        print(f"- {event}, {title}: {ratio:.3f}, at most {limits[title]}: {'held' if holds else 'missed'}.")
    sys.exit(1 if missed else 0)


main()
