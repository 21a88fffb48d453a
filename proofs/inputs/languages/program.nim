# SPDX-License-Identifier: MIT OR Apache-2.0
# Exceptions, closures, tables, methods, iterators and a garbage collection.
import std/[tables, strutils, algorithm, sequtils]

type
  Shape = ref object of RootObj
  Square = ref object of Shape
    side: int

method area(s: Shape): int {.base.} = 0
method area(s: Square): int = s.side * s.side

proc fib(n: int): int =
  if n < 2: n else: fib(n - 1) + fib(n - 2)

proc fail(n: int) =
  if n == 0: raise newException(ValueError, "failed")
  fail(n - 1)

iterator squares(n: int): int {.closure.} =
  for i in 1 .. n: yield i * i

let shape: Shape = Square(side: 7)
echo fib(20), " ", shape.area
try: fail(10)
except ValueError: echo getCurrentExceptionMsg()
try: echo parseInt("x1")
except ValueError: echo "no number"
var words = initTable[string, int]()
for w in ["one", "three", "eleven", "one"]: words.mgetOrPut(w, 0) += w.len
echo toSeq(words.values).foldl(a + b), " ", sorted(toSeq(words.keys)).join(",")
var sum = 0
for x in squares(10): sum += x
GC_fullCollect()
echo sum
