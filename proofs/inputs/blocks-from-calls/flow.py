#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""flow.py PROGRAM COUNTS: two rows with the share of block executions that follows from the counts of calls.

COUNTS is callgrind's output with counts of instructions (--dump-instr=yes --compress-pos=no). Blocks and jumps come from objdump. Known at the
beginning: how often each function was called, and the executions of each block with a call or a tail jump. A further count is known if all jumps
into a block, or all jumps out of it, are known; and a jump is known if it is the only unknown one of a known block. For the second row, jumps
with a displacement of four bytes are known, too, because they could lead to a counting stub.
"""

import bisect
import collections
import re
import subprocess
import sys

PREFIXES = ("bnd", "notrack", "rep", "repz", "lock", "cs", "data16")


def executions(path, program):
    """Returns the executions of each instruction of the program, by address."""
    counts, files, current, is_call = collections.Counter(), {}, None, False
    for line in open(path, errors="replace"):
        if line.startswith(("ob=", "cob=")):
            number, _, name = line.split("=", 1)[1].strip().partition(" ")
            if name:
                files[number] = name
            if line.startswith("ob="):
                current = files.get(number, number)
        elif line.startswith("calls="):
            is_call = True
        elif line.startswith("0x"):
            if not is_call and current and current.endswith(program):
                address, _, count = line.split()[:3]
                counts[int(address, 16)] += int(count)
            is_call = False
    return counts


def functions(path):
    """Returns the instructions of each function: address, size, mnemonic, target of a direct jump or call."""
    listing = subprocess.run(["objdump", "-d", "-w", path], capture_output=True, text=True, check=True).stdout
    found, code = [], None
    for line in listing.splitlines():
        if line.endswith(">:"):
            code = []
            found.append(code)
        elif code is not None and line.startswith(" ") and line.count("\t") >= 2:
            place, octets, text = line.split("\t", 2)
            words = text.split()
            while words and words[0] in PREFIXES:
                words = words[1:]
            if words:
                is_direct = len(words) > 1 and re.fullmatch("[0-9a-f]+", words[1])
                code.append((int(place.strip(" :"), 16), len(octets.split()), words[0], int(words[1], 16) if is_direct else None))
    return [code for code in found if code]


def is_end(name):
    return name in ("jmp", "ud2", "hlt") or name.startswith("ret")


class Flow:
    """Blocks and jumps of a function."""

    def __init__(self, code, counts, jumps_are_known):
        self.begin, end = code[0][0], code[-1][0] + code[-1][1]
        self.end, self.jumps_are_known = end, jumps_are_known
        leaders = {self.begin}
        for address, size, name, target in code:
            if is_end(name) or name.startswith("j"):
                leaders |= {at for at in (address + size, target) if self.has(at)}
        self.leaders = sorted(leaders)
        self.counts, self.sizes, self.known = {at: counts[at] for at in self.leaders}, collections.Counter(), set()
        self.edges, self.into, self.out = [], collections.defaultdict(list), collections.defaultdict(list)
        # Blocks with unknown jumps into them, or out of them: by tables, returns and tail calls.
        self.opaque_in, self.opaque_out = set(), set()
        has_table = any(name == "jmp" and target is None for _, _, name, target in code)
        follows_end = False
        for address, size, name, target in code:
            at = self.leaders[bisect.bisect_right(self.leaders, address) - 1]
            if has_table and follows_end and at == address:
                self.opaque_in.add(at)
            self.sizes[at] += 1
            if name.startswith("call"):
                self.known.add(at)
            follows_end = is_end(name)
            if address + size in leaders or address + size == end:
                self.leave(at, address, size, name, target)
        if not self.into[self.begin]:
            self.known.add(self.begin)

    def has(self, address):
        return address is not None and self.begin <= address < self.end

    def leave(self, at, address, size, name, target):
        """Adds the jumps out of a block by its last instruction."""
        after = address + size
        if name == "jmp":
            if self.has(target):
                self.edge(at, target, self.jumps_are_known and size >= 5)
            else:
                self.opaque_out.add(at)
                if target is not None:
                    self.known.add(at)
        elif name.startswith("j"):
            self.edge(at, target, size >= 6 and (self.jumps_are_known or not self.has(target)))
            self.edge(at, after, False)
        elif is_end(name) or not self.has(after):
            self.opaque_out.add(at)
        else:
            self.edge(at, after, False)

    def edge(self, source, target, is_known):
        self.out[source].append(len(self.edges))
        if self.has(target):
            self.into[target].append(len(self.edges))
        self.edges.append(is_known)

    def solve(self):
        """Returns the blocks with a known count."""
        edges, known, changed = list(self.edges), set(self.known), True
        while changed:
            changed = False
            for at, count in self.counts.items():
                if at in known and count == 0:
                    # Nothing jumps to it or from it.
                    unknown = [edge for edge in self.into[at] + self.out[at] if not edges[edge]]
                    for edge in unknown:
                        edges[edge] = changed = True
                for side, opaque in ((self.into, self.opaque_in), (self.out, self.opaque_out)):
                    if at in opaque or not side[at]:
                        continue
                    unknown = [edge for edge in side[at] if not edges[edge]]
                    if not unknown and at not in known:
                        known.add(at)
                        changed = True
                    elif len(unknown) == 1 and at in known:
                        edges[unknown[0]] = changed = True
        return known


def main():
    program, path = sys.argv[1:3]
    name = program.rsplit("/", 1)[-1]
    counts, codes = executions(path, name), functions(program)
    for jumps_are_known in (False, True):
        # Executions of blocks, executed instructions, executed blocks.
        whole, found = [0, 0, 0], [0, 0, 0]
        for code in codes:
            flow = Flow(code, counts, jumps_are_known)
            if not any(flow.counts.values()):
                continue
            known = flow.solve()
            for at, count in flow.counts.items():
                for place, figure in enumerate((count, count * flow.sizes[at], count > 0)):
                    whole[place] += figure
                    found[place] += figure * (at in known)
        shares = " | ".join(f"{100 * part / all_of:.1f} %" for part, all_of in zip(found, whole))
        print(f"| {name} | calls{' and jumps of four bytes' * jumps_are_known} | {shares} |")


main()
