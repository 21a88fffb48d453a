// SPDX-License-Identifier: MIT OR Apache-2.0
// Classes, exceptions, closures, associative arrays, fibers and a garbage collection.
import std.stdio, std.algorithm, std.array, std.conv, std.range;
import core.thread, core.memory;

class Shape { abstract int area(); }
class Square : Shape { int side; this(int s) { side = s; } override int area() { return side * side; } }

int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
void fail(int n) { if (n == 0) throw new Exception("failed"); fail(n - 1); }

void main()
{
    writeln(fib(20), " ", (new Square(7)).area());
    try fail(10); catch (Exception e) writeln(e.msg);
    try to!int("x1"); catch (ConvException e) writeln("no number");
    int[string] words;
    foreach (w; ["one", "three", "eleven", "one"]) words[w] += cast(int) w.length;
    writeln(words.byValue.sum, " ", words.keys.sort.join(","));
    auto f = new Fiber({ foreach (i; 0 .. 3) { write(i, " "); Fiber.yield(); } });
    while (f.state != Fiber.State.TERM) f.call();
    writeln();
    auto t = new Thread({ writeln("thread ", iota(100).map!(x => x * x).sum); });
    t.start(); t.join();
    GC.collect();
    writeln([3, 1, 2].sort);
}
