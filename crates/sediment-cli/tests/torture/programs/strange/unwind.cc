// SPDX-License-Identifier: MIT OR Apache-2.0
/* c++ -O2 -Wall -pthread -fno-optimize-sibling-calls -o unwind unwind.cc */
/* C++ exceptions, forced unwinding and backtraces run through deep frames, libc callbacks and threads, and every frame must be counted exactly. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <thread>
#include <unwind.h>
#include <vector>

static long destroyed, unknown;
struct Guard { ~Guard() { destroyed++; } };

static _Unwind_Reason_Code count(_Unwind_Context *c, void *n)
{
    if (!_Unwind_GetIP(c))
        return _URC_END_OF_STACK;
    ++*static_cast<int *>(n);
    return _URC_NO_REASON;
}

static int __attribute__((noinline)) frames()
{
    int n = 0;
    _Unwind_Backtrace(count, &n);
    return n;
}

static int __attribute__((noinline)) frames2()
{
    void *a[512];
    int n = backtrace(a, 512);
    Dl_info i;
    for (int k = 0; k < n; k++)
        unknown += !dladdr(a[k], &i);
    return n;
}

enum Mode { Unwind, Backtrace, Throw, Exit };

static int __attribute__((noinline, noclone)) deep(int d, Mode m)
{
    Guard g;
    if (d == 0) {
        if (m == Throw)
            throw std::runtime_error("x");
        if (m == Exit)
            pthread_exit(reinterpret_cast<void *>(41));
        return m == Unwind ? frames() : frames2();
    }
    int r = deep(d - 1, m);
    __asm__ volatile("" : "+r"(r));
    return r;
}

static int bad_compare(const void *, const void *) { return deep(20, Throw); }

int main()
{
    long caught = 0, exact = 0, nested = 0, joined = 0;
    int b0 = deep(0, Unwind), b1 = deep(0, Backtrace);
    for (int i = 0; i < 360; i++) {
        exact += deep(i, Unwind) - b0 == i;
        exact += deep(i, Backtrace) - b1 == i;
        try {
            deep(i, Throw);
        } catch (const std::exception &) {
            caught++;
        }
        int a[8] = { 3, 1, 2, 8, 5, 4, 7, 6 };
        try {
            qsort(a, 8, sizeof *a, bad_compare);
        } catch (const std::exception &e) {
            try {
                try {
                    deep(5, Throw);
                } catch (...) {
                    std::rethrow_exception(std::current_exception());
                }
            } catch (const std::runtime_error &) {
                nested++;
            }
        }
        std::vector<int> v(50, 1);
        try {
            std::sort(v.begin(), v.end(), [](int, int) -> bool { return deep(3, Throw); });
        } catch (const std::runtime_error &) {
            caught++;
        }
        std::exception_ptr p;
        std::thread t([&] {
            try {
                deep(30, Throw);
            } catch (...) {
                p = std::current_exception();
            }
        });
        t.join();
        try {
            std::rethrow_exception(p);
        } catch (const std::runtime_error &) {
            caught++;
        }
        pthread_t q;
        void *r;
        pthread_create(&q, nullptr, [](void *) -> void * { deep(40, Exit); return nullptr; }, nullptr);
        pthread_join(q, &r);
        joined += reinterpret_cast<long>(r);
    }
    std::printf("exact %ld, caught %ld, nested %ld, destroyed %ld, joined %ld, unknown frames %ld\n", exact, caught, nested, destroyed, joined, unknown);
    return 0;
}
