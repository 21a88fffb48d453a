# SPDX-License-Identifier: MIT OR Apache-2.0
import ast, collections, re, textwrap
source = open(ast.__file__).read()[:30000].rsplit("\n\n\n", 1)[0]
tree = ast.parse(source)
names = collections.Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
print(names.most_common(5), len(ast.dump(tree)))
words = re.findall(r"[A-Za-z_]\w+", source)
index = collections.defaultdict(list)
for place, word in enumerate(words):
    index[word.lower()].append(place)
print(sorted(index, key=lambda word: (-len(index[word]), word))[:20])
print(len(re.sub(r"(\w+)\.(\w+)", lambda match: match[2] + "." + match[1], source)))
print(textwrap.fill(" ".join(words[:400]), 70)[-60:])
class Account:
    def __init__(self, owner, balance=0):
        self.owner, self.balance, self.log = owner, balance, []
    def move(self, amount):
        if self.balance + amount < 0:
            raise ValueError(f"{self.owner} has {self.balance}")
        self.balance += amount
        self.log.append(amount)
accounts = {name: Account(name) for name in sorted(index)[:60]}
failed = 0
for step in range(3000):
    account = accounts[sorted(accounts)[step * 31 % 60]] if step % 50 == 0 else list(accounts.values())[step % 60]
    try:
        account.move(step * 7919 % 201 - 90)
    except ValueError as error:
        failed += len(str(error)) % 2
print(failed, sum(account.balance for account in accounts.values()))
table = {(row, column): row * column % 17 for row in range(40) for column in range(40)}
print(max(sum(table[row, column] for column in range(40)) for row in range(40)))
print(eval(compile(ast.parse("[x ** 2 for x in range(50) if x % 3]", mode="eval"), "made", "eval"))[-1])
