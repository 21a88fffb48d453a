#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a dataset's tables by DuckDB and its Delta extension (PyPI: duckdb, duckdb-ext-delta), with the SQL of a page. Prints the sums of
the first query with their subjects as JSON lines, then the number of rows of the second query, then the third query's rows.

    delta.py PAGE DATASET
"""
import json
import os
import re
import sys

import duckdb
import duckdb_ext

page, dataset = sys.argv[1:]
text = open(page, encoding="utf-8").read()


def block(name):
    found = re.search(rf"<!-- file: {name} -->\n\n((?:    .*\n|\n)+)", text).group(1)
    return [part.strip() for part in found.replace("DATASET", dataset).split(";") if part.strip()]


engine = duckdb.connect()
engine.execute("SET extension_directory = ?", [os.path.join(list(duckdb_ext.__path__)[0], "extensions")])
engine.execute("SET autoinstall_known_extensions = false")
engine.execute("LOAD delta")
for statement in block("tables.sql"):
    engine.execute(statement)
# Every submission counts, in one class.
engine.execute("CREATE VIEW counted AS SELECT submission, 0 AS class FROM submissions")
merge, policy, hottest = block("queries.sql")
columns = "kind, dso, name, file, callee_dso, callee_name, callee_file, detail"
sums = engine.execute(f"SELECT {columns}, CAST(weight AS VARCHAR) AS weight, first_use FROM ({merge}) NATURAL JOIN subjects")
names = [column[0] for column in sums.description]
for row in sums.fetchall():
    print(json.dumps(dict(zip(names, row))))
print(len(engine.execute(policy).fetchall()))
for row in engine.execute(hottest).fetchall():
    print(*row, sep="\t")
