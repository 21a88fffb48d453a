// SPDX-License-Identifier: MIT OR Apache-2.0
// Words and objects.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
print(fib(16));
var words = [], count = {};
for (var i = 0; i < 600; i++) { words.push('w' + (i * 7919 % 401)); }
words.sort();
words.forEach(function (w) { count[w.length] = (count[w.length] || 0) + 1; });
print(JSON.stringify(count));
function Point(x, y) { this.x = x; this.y = y; }
Point.prototype.add = function (o) { return new Point(this.x + o.x, this.y + o.y); };
var sum = new Point(0, 0);
for (i = 0; i < 1500; i++) { sum = sum.add(new Point(i, -i)); }
print(sum.x, sum.y, words.join(' ').replace(/w(\d)/g, '$1w').substring(0, 40));
