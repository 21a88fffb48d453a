# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the interpreter is recorded with; with an argument, other work of the same kinds, to measure with."""
import sys

other = len(sys.argv) > 1
rounds = 25 if other else 30


class Account:
    def __init__(self, number):
        self.number, self.balance, self.log = number, 0, []

    def move(self, amount):
        if self.balance + amount < 0:
            raise ValueError("not covered")
        self.balance += amount
        self.log.append(amount)


def words(seed, count):
    text = []
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % 2**31
        text.append("".join(chr(97 + (seed >> shift) % 26) for shift in range(0, 24, 3 if other else 4)))
    return text


def bank(seed):
    accounts = [Account(number) for number in range(20)]
    refused = 0
    for step in range(400):
        try:
            accounts[(seed + step * 7) % 20].move((seed + step * 7919) % 201 - 90)
        except ValueError:
            refused += 1
    return refused, sum(account.balance for account in accounts)


def count(text):
    seen = {}
    for word in text:
        seen[word[:2]] = seen.get(word[:2], 0) + 1
    return sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:5]


total = 0
for number in range(rounds):
    text = words(number + (1000 if other else 1), 200)
    total += len(" ".join(text).upper().replace("A", "--").split("-"))
    total += sum(size for _, size in count(text)) + bank(number)[0]
    exec(compile("\n".join(f"def f{i}(x):\n    return x * {i} + {number}" for i in range(20)), "generated", "exec"))
    total += sum(i % 7 for i in range(300) if i % 3) + len(f"{number:08b} {total!r:>12}")
    if other:
        total += len(set(text) & set(words(number, 50))) + int("9" * 30) % (number + 2)
print(total)
