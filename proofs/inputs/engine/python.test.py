# SPDX-License-Identifier: MIT OR Apache-2.0
import difflib, functools, heapq, itertools, string, tokenize, io, dis
source = open(heapq.__file__).read()
tokens = [token.string for token in tokenize.generate_tokens(io.StringIO(source).readline)]
print(len(tokens), tokens[-3:])
@functools.lru_cache(maxsize=None)
def ways(total, coins):
    if total == 0:
        return 1
    return sum(ways(total - coin, coins[at:]) for at, coin in enumerate(coins) if coin <= total)
print(ways(80, (50, 20, 10, 5, 2, 1)))
one, other = source.splitlines()[:90], source.replace("heap", "pile").splitlines()[10:100]
print(len(list(difflib.unified_diff(one, other, lineterm=""))))
def primes():
    found = []
    for number in itertools.count(2):
        if all(number % prime for prime in itertools.takewhile(lambda prime: prime * prime <= number, found)):
            found.append(number)
            yield number
print(list(itertools.islice(primes(), 250))[-1])
queue = []
for number in range(700):
    heapq.heappush(queue, (number * 7919 % 1009, str(number)))
print([heapq.heappop(queue)[1] for _ in range(300)][-5:])
print(string.Template("$name owes $amount").substitute(name="x" * 5, amount=b"12".decode()), "{:>10.3f}|{!r:^9}".format(3.14159, "é"))
text = "\n".join("%s=%d" % (letter * size, size) for letter in string.ascii_lowercase for size in range(1, 12))
data = dict(line.partition("=")[::2] for line in text.split("\n"))
print(len(data), sorted(set(data.values()), key=int)[:4], bytes(data["aaa"], "ascii").hex(), {**data}.keys() & {"a", "bb"} == {"a", "bb"})
out = io.StringIO()
dis.dis(ways.__wrapped__, file=out)
print(out.getvalue().count("\n"), 2 ** 500 % 10 ** 20, divmod(-7, 3), round(2.675, 2), int("ff", 16), complex(1, 2) * 3j)
matrix = [[row * column % 7 for column in range(25)] for row in range(25)]
print(sum(sum(a * b for a, b in zip(row, column)) for row in matrix for column in zip(*matrix)))
