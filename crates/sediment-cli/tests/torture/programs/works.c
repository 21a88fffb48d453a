// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread that calls functions.
#include "act.h"
static void once(long round) { work(100); }
int main(int count, char **arguments) { return act(count, arguments, once); }
