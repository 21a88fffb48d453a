# SPDX-License-Identifier: MIT OR Apache-2.0
# Records are read from text, checked, summed up and written again.
import collections
import configparser
import copy
import dataclasses
import enum
import html.parser
import json
import pprint
import shlex


class Kind(enum.Enum):
    SMALL = 1
    LARGE = 2


@dataclasses.dataclass(order=True)
class Order:
    day: str
    number: int
    kind: Kind = dataclasses.field(compare=False)
    amount: float = dataclasses.field(compare=False, default=0.0)


class Cells(html.parser.HTMLParser):
    cells = 0

    def handle_data(self, data):
        self.cells += data.isalnum()


seed, lines = 5, []
for number in range(200):
    seed = seed * 48271 % 2147483647
    lines.append('{"id": %d, "day": "2020-%02d-%02d", "amount": %.2f, "notes": ["n%d", null, true]}' % (number, seed % 12 + 1, seed % 28 + 1, seed % 9999 / 7, seed % 100))
orders = []
for line in lines:
    found = json.loads(line)
    orders.append(Order(found["day"], found["id"], Kind.LARGE if found["amount"] > 700 else Kind.SMALL, found["amount"]))
months = collections.OrderedDict()
for order in sorted(orders):
    months.setdefault(order.day[5:7], []).append(order)
for month, those in months.items():
    print(month, len(those), f"{sum(order.amount for order in those) / len(those):.2f}", max(those).number)
text = json.dumps([{**dataclasses.asdict(order), "kind": order.kind.name} for order in orders[:80]], indent=1, sort_keys=True)
print(len(text), text.count("LARGE"), len(pprint.pformat(json.loads(text)[:30])))
settings = configparser.ConfigParser()
settings.read_string("".join(f"[part {number}]\nname = n{number}\npath = /srv/%(name)s\n" for number in range(40)))
print(sum(len(settings[part]["path"]) for part in settings.sections()))
page = Cells()
page.feed("".join(f"<tr class='row'><td>{order.number}</td><td>{order.kind.name}</td></tr>\n" for order in orders))
print(page.cells, len(copy.deepcopy(orders)), len(shlex.split("a 'b c' \"d e\" " * 60)))
