#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""make.py FOLDER: writes the workloads of the programs, always with the same bytes. Training and measurement have different workloads."""

import json
import random
import struct
import sys

folder = sys.argv[1]
WORDS = [a + b + c for a in "bdfgklmnprst" for b in ("a", "e", "ou", "i") for c in ("n", "r", "st", "ld", "m", "ck")]


def write(name, data):
    with open(f"{folder}/{name}", "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def sentence(luck):
    return " ".join(luck.choice(WORDS) for _ in range(luck.randint(4, 14))).capitalize() + luck.choice(".!?")


def markdown(luck, blocks):
    text = []
    for _ in range(blocks):
        kind = luck.randint(0, 7)
        if kind == 0:
            text.append("#" * luck.randint(1, 4) + " " + sentence(luck))
        elif kind == 1:
            text += [f"- {sentence(luck)} *{luck.choice(WORDS)}*" for _ in range(luck.randint(2, 6))]
        elif kind == 2:
            text += ["```", *(f"{luck.choice(WORDS)}({luck.randint(0, 999)});" for _ in range(4)), "```"]
        elif kind == 3:
            text.append(f"> {sentence(luck)} [{luck.choice(WORDS)}](http://{luck.choice(WORDS)}.example/{luck.randint(0, 99)})")
        elif kind == 4:
            text += ["| a | b |", "|---|--:|", *(f"| {luck.choice(WORDS)} | `{luck.randint(0, 9999)}` |" for _ in range(3))]
        else:
            text.append(" ".join(sentence(luck) for _ in range(luck.randint(1, 6))) + " **" + luck.choice(WORDS) + "** \u05d0\u05d1 &amp; <b>x</b>")
        text.append("")
    return "\n".join(text)


def assembler(luck, lines):
    registers = ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9"]
    text = ["section .text", "%macro twice 1", "add %1, %1", "%endmacro"]
    for at in range(lines):
        one, other = luck.sample(registers, 2)
        text.append(luck.choice([f"l{at}: mov {one}, {other}", f"add {one}, {luck.randint(1, 9999)}", f"lea {one}, [{other}+8*{luck.randint(0, 15)}+{luck.randint(0, 64)}]",
                                 f"twice {one}", f"cmp {one}, {other}\njne $+{luck.randint(2, 9)}", f"dq {luck.randint(0, 1 << 40)}"]))
    return "\n".join(text) + "\n"


def script(rounds, size):
    return f"""function Node(key) {{ this.key = key; this.left = this.right = null; }}
function insert(node, key) {{ if (!node) return new Node(key); if (key < node.key) node.left = insert(node.left, key); else node.right = insert(node.right, key); return node; }}
function sum(node) {{ return node ? node.key + sum(node.left) + sum(node.right) : 0; }}
var text = [], seed = {size};
function next() {{ seed = (seed * 1103 + 12345) % 65537; return seed; }}
for (var round = 0; round < {rounds}; round++) {{
  var root = null, counts = {{}};
  for (var at = 0; at < {size}; at++) {{ var key = next(); root = insert(root, key); counts["k" + key % 97] = (counts["k" + key % 97] || 0) + 1; }}
  text.push(sum(root), Object.keys(counts).sort().join("").replace(/k(\\d)/g, "$1-").length, JSON.stringify(counts).length);
}}
print(text.join(","));
"""


def yaml(luck, entries):
    text = []
    for at in range(entries):
        text += [f"- name: {luck.choice(WORDS)}{at}", f"  text: \"{sentence(luck)}\"", f"  list: [{luck.randint(0, 99)}, {luck.random():.4f}, {luck.choice(WORDS)}]",
                 "  map:", f"    {luck.choice(WORDS)}: &a{at} {luck.choice(WORDS)}", f"    {luck.choice(WORDS)}: *a{at}"]
    return "\n".join(text) + "\n"


def gif(luck, frames, size):
    """Frames of noise and stripes, without compression (clear codes before the table grows)."""
    data = bytearray(b"GIF89a" + struct.pack("<HHBBB", size, size, 0xF6, 0, 0))
    for at in range(128):
        data += bytes([2 * at, 255 - 2 * at, (at * 7) % 256])
    for frame in range(frames):
        data += b"\x21\xf9\x04\x04" + struct.pack("<HBB", 5, 0, 0)
        data += b"\x2c" + struct.pack("<HHHHB", 0, 0, size, size, 0) + b"\x07"
        bits, count, out = 0, 0, bytearray()
        pixels = [((x + frame * 3) * (y + 1) // 9 + luck.randint(0, 3)) % 128 for y in range(size) for x in range(size)]
        for start in range(0, len(pixels), 100):
            for value in [128, *pixels[start:start + 100]]:
                bits |= value << count
                count += 8
                while count >= 8:
                    out.append(bits & 255)
                    bits >>= 8
                    count -= 8
        out += bytes([129])
        for start in range(0, len(out), 255):
            part = out[start:start + 255]
            data += bytes([len(part)]) + part
        data += b"\x00"
    return bytes(data + b"\x3b")


def words(luck, count):
    return "".join(f"{luck.choice(WORDS)}{luck.choice(WORDS)}{at}\n" for at in range(count))


def xml(luck, entries):
    text = ['<?xml version="1.0"?>', "<!DOCTYPE all [<!ENTITY name 'value'>]>", "<all xmlns:o='urn:other'>"]
    for at in range(entries):
        text.append(f'<entry id="e{at}" o:kind="{luck.choice(WORDS)}"><name>{sentence(luck)} &name; &lt;{luck.choice(WORDS)}&gt;</name><!-- {luck.choice(WORDS)} -->'
                    f"<list>{''.join(f'<{word}>{luck.randint(0, 9999)}</{word}>' for word in luck.choices(WORDS, k=4))}</list><![CDATA[<{luck.choice(WORDS)}>]]></entry>")
    return "\n".join([*text, "</all>"]) + "\n"


def jsonnet(luck, entries, rounds):
    fields = "\n".join(f"  {word}{at}:: self.base + {luck.randint(0, 99)}," for at, word in enumerate(luck.choices(WORDS, k=entries)))
    return f"""local item(n) = {{ base:: n, name: "item%03d" % n, odd: n % 2 == 1,
{fields}
  list: [x * x for x in std.range(0, n % 17) if x % 3 != 0], text: std.join("-", [std.toString(x) for x in self.list]) }};
local fold(n) = std.foldl(function(sum, x) (sum * 31 + x) % 65521, std.range(1, n), 7);
{{ items: [item(n) + {{ extra: std.length(self.text) }} for n in std.range(1, {rounds})], sum: fold({rounds * 20}),
  sorted: std.sort([(n * 7919) % 1013 for n in std.range(1, {rounds})]), keys: std.objectFields(item(3)) }}
"""


def rows(luck, count):
    return json.dumps([{"a": luck.randint(0, 50), "b": luck.choice(WORDS), "c": [luck.random() for _ in range(4)]} for _ in range(count)])


for name, seed, scale in (("train", 1, 0.4), ("test", 2, 0.25)):
    luck = random.Random(seed)
    write(f"{name}.md", markdown(luck, int(60_000 * scale)))
    write(f"{name}.asm", assembler(luck, int(120_000 * scale)))
    write(f"{name}.js", script(int(60 * scale), 3000))
    write(f"{name}.yaml", yaml(luck, int(6000 * scale)))
    write(f"{name}.gif", gif(luck, int(20 * scale), 160))
    write(f"{name}.words", words(luck, int(1600 * scale)))
    write(f"{name}.json", rows(luck, int(40_000 * scale)))
    write(f"{name}.xml", xml(luck, int(40_000 * scale)))
    write(f"{name}.jsonnet", jsonnet(luck, 12, int(1500 * scale)))
