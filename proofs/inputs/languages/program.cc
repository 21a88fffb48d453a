// SPDX-License-Identifier: MIT OR Apache-2.0
// Exceptions through several frames, virtual functions, templates, threads and static constructors.
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

struct Shape { virtual int area() const = 0; virtual ~Shape() {} };
struct Square : Shape { int side; explicit Square(int s) : side(s) {} int area() const override { return side * side; } };
struct Early { int value; Early() : value(42) {} } early;

__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__attribute__((noinline)) void fail(int n) { std::string s(n, 'x'); if (n == 0) throw std::runtime_error("failed"); fail(n - 1); }

int main() {
    Shape *shape = new Square(7);
    printf("%d %d %d\n", fib(20), shape->area(), early.value);
    delete shape;
    try { fail(10); } catch (const std::exception &e) { puts(e.what()); }
    try { std::stoi("x1"); } catch (const std::invalid_argument &) { puts("no number"); }
    std::map<std::string, int> words;
    for (const char *w : {"one", "three", "eleven", "one"}) words[w] += 1;
    for (auto &w : words) printf("%s %d\n", w.first.c_str(), w.second);
    long sum = 0;
    std::thread t([&] { for (int i = 0; i < 1000; i++) sum += i; });
    t.join();
    printf("%ld\n", sum);
}
