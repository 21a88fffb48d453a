# SPDX-License-Identifier: MIT OR Apache-2.0
import collections


class Account:
    def __init__(self, name, balance):
        self.name, self.balance = name, balance

    def move(self, other, amount):
        if amount > self.balance:
            raise ValueError(self.name)
        self.balance -= amount
        other.balance += amount


accounts = [Account(f"account {number}", 1000) for number in range(100)]
refused = 0
for turn in range(450_000):
    try:
        accounts[turn * 7919 % 100].move(accounts[turn * 31 % 100], turn % 113)
    except ValueError:
        refused += 1
words = collections.Counter(f"{turn * turn % 9973:x}" for turn in range(500_000))
text = " ".join(sorted(words, key=lambda word: (-words[word], word)))
print(refused, len(text), text.replace("a", "bc").split()[:5], sum(account.balance for account in accounts))
