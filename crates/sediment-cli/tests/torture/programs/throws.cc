// SPDX-License-Identifier: MIT OR Apache-2.0
// Exceptions through functions that were just met, from threads too.
#include "act.h"
#include <stdexcept>
#include <string>
#include <thread>
__attribute__((noinline)) static long deep(long depth) {
    std::string kept(static_cast<size_t>(depth) + 20, 'x');
    if (depth == 0) throw std::runtime_error("the bottom");
    return deep(depth - 1) + static_cast<long>(kept.size());
}
static void fall() {
    for (long depth = 0; depth < 20; depth++)
        try {
            deep(depth);
            expect(0, "nothing was thrown");
        } catch (const std::exception &error) {
            expect(std::string(error.what()) == "the bottom", "%s", error.what());
        }
}
static void once(long round) {
    std::thread other(fall);
    fall();
    other.join();
    work(2);
}
int main(int count, char **arguments) { return act(count, arguments, once); }
