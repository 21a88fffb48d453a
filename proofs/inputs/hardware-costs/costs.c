// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Cycles of one run of a function, by where functions lie.
//
// A program of STAGES stages is written as machine code for x86-64. Each stage has two functions of equal size, and each function jumps to one
// of the two functions of the next stage: to which, in `random` programs, the bits of a pseudo-random sequence decide, so that half of the jumps
// are predicted wrongly, or, in `regular` ones, always the same. What differs between two layouts is where the functions lie: the instructions
// executed are the same. Prints the kind of program, its functions, the layout, its pages, and cycles of one function: the least of several
// copies, the median and the most of them. Of each copy the fastest of many repetitions counts. A cycle is the time of one addition of a
// chain of dependent ones.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGE = 4096, LINE = 64, EXECUTED = 192, MOST_BYTES = 1 << 30, REPETITIONS = 20, COPIES = 15 };

// Where the functions of a program lie.
struct layout {
    const char *name;
    int function_bytes;    // room of each function
    int shuffle_pages;     // the pages are in random order
    int shuffle_functions; // 1: functions are in random order within their page, 2: everywhere
    int page_fill;         // bytes used of each page, from its start
    int page_distance;     // bytes from page to page
    int offset;            // bytes from the start of a line to each function
    int is_scattered;      // what a page holds begins at a random line, and pages lie a random number of pages further apart
};

static uint64_t state = 88172645463325252u;
static uint64_t random_number(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void shuffle(uint64_t *values, size_t count) {
    for (size_t left = count; left > 1; left--) {
        size_t other = random_number() % left;
        uint64_t held = values[other];
        values[other] = values[left - 1];
        values[left - 1] = held;
    }
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

// Seconds of a cycle, by additions that wait for each other: the least of several.
static double cycle(void) {
    double least = 1;
    for (int round = 0; round < 10; round++) {
        uint64_t count = 20000, sum = 0;
        double before = seconds();
        __asm__ volatile("1: add %0, %1; add %0, %1; add %0, %1; add %0, %1; add %0, %1; add %0, %1; add %0, %1; add %0, %1; dec %0; jnz 1b"
                         : "+r"(count), "+r"(sum));
        double each = (seconds() - before) / (8 * 20000.0);
        if (each < least) least = each;
    }
    return least;
}

static unsigned char *put(unsigned char *at, const char *bytes, size_t count) {
    memcpy(at, bytes, count);
    return at + count;
}

static unsigned char *put_distance(unsigned char *at, const unsigned char *target) {
    int32_t distance = (int32_t)(target - (at + 4));
    memcpy(at, &distance, 4);
    return at + 4;
}

// One function: additions up to its length, a step of the sequence, and a jump to one of two functions.
static void write_function(unsigned char *at, int executed, int is_random, const unsigned char *left, const unsigned char *right) {
    unsigned char *end = at + executed;
    const int tail = is_random ? 7 + 6 + 5 + 6 + 5 : 5;
    for (int number = 0; at + 4 + tail <= end; number++) {
        // add $1, %r8d to %r15d, in turn
        char addition[] = {0x41, (char)0x83, (char)(0xc0 + number % 8), 1};
        at = put(at, addition, 4);
    }
    if (is_random) {
        at = put(at, "\x48\x69\xc0\x2d\x7f\x95\x4c", 7); // imul $0x4c957f2d, %rax, %rax
        at = put(at, "\x48\x05\x4b\x7e\x05\x14", 6);     // add $0x14057e4b, %rax
        at = put(at, "\x48\x0f\xba\xe0\x2e", 5);         // bt $46, %rax
        at = put(at, "\x0f\x82", 2);                     // jc
        at = put_distance(at, right);
    }
    at = put(at, "\xe9", 1); // jmp
    put_distance(at, left);
}

static double measure(int stages, int is_random, int executed, const struct layout *layout, double cycle_time, int *pages) {
    const int functions = 2 * stages;
    int per_page = (layout->page_fill - layout->offset) / layout->function_bytes;
    *pages = (functions + per_page - 1) / per_page;
    const size_t span = ((size_t)*pages + 1) * layout->page_distance;
    unsigned char *code = mmap(NULL, span + 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (code == MAP_FAILED) {
        perror("costs: mmap");
        exit(1);
    }
    madvise(code, span + 2 * PAGE, MADV_NOHUGEPAGE);
    uint64_t *page_of = malloc(*pages * sizeof *page_of), *place = malloc((size_t)*pages * per_page * sizeof *place);
    for (int page = 0; page < *pages; page++) page_of[page] = page;
    if (layout->shuffle_pages) shuffle(page_of, *pages);
    for (int page = 0; page < *pages; page++) {
        size_t start = PAGE + page_of[page] * layout->page_distance + layout->offset;
        if (layout->is_scattered) {
            const int lines = (PAGE - layout->page_fill) / LINE, further = layout->page_distance / PAGE;
            start += (lines ? random_number() % lines * LINE : 0) + (further > 1 ? random_number() % further * PAGE : 0);
        }
        for (int number = 0; number < per_page; number++) place[page * per_page + number] = start + number * layout->function_bytes;
    }
    for (int page = 0; page < *pages; page++)
        if (layout->shuffle_functions == 1) {
            int count = functions - page * per_page;
            shuffle(place + page * per_page, count < per_page ? count : per_page);
        }
    if (layout->shuffle_functions == 2) shuffle(place, functions);
    // The entry, for C: the random state in, a number of rounds; callee-saved registers kept.
    unsigned char *round = code + 64;
    unsigned char *at = put(code, "\x41\x54\x41\x55\x41\x56\x41\x57\x48\x89\xf8\x48\x89\xf1", 14); // push %r12…%r15; mov %rdi, %rax; mov %rsi, %rcx
    at = put(at, "\xe9", 1);
    put_distance(at, code + place[0]);
    at = put(round, "\x48\xff\xc9\x0f\x85", 5); // dec %rcx; jnz
    at = put_distance(at, code + place[0]);
    put(at, "\x41\x5f\x41\x5e\x41\x5d\x41\x5c\xc3", 9); // pop; ret
    for (int stage = 0; stage < stages; stage++)
        for (int side = 0; side < 2; side++) {
            const int is_last = stage == stages - 1;
            // A regular program runs both functions of a stage, one after the other.
            const unsigned char *left = is_last ? round : code + place[2 * stage + 2], *right = is_last ? round : code + place[2 * stage + 3];
            if (!is_random) left = side == 0 ? code + place[2 * stage + 1] : left;
            write_function(code + place[2 * stage + side], executed, is_random, left, right);
        }
    const int executed_functions = is_random ? stages : functions;
    int rounds = 200000 / executed_functions + 1;
    uint64_t (*run)(uint64_t, uint64_t) = (uint64_t(*)(uint64_t, uint64_t))code;
    double least = 1e9;
    uint64_t seed = 1;
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        double before = seconds();
        seed = run(seed, rounds);
        double each = (seconds() - before) / ((double)rounds * executed_functions);
        if (repetition > 2 && each < least) least = each;
    }
    free(page_of);
    free(place);
    munmap(code, span + 2 * PAGE);
    return least / cycle_time;
}

static int compare(const void *left, const void *right) {
    const double *const l = left, *const r = right;
    return (*l > *r) - (*l < *r);
}

// Cycles of a function in a fresh copy. Where the processor's clock changed meanwhile, it is measured again.
static double measure_at_a_steady_clock(int stages, int is_random, const struct layout *layout, int *pages) {
    double cycles = 0;
    for (int attempt = 0; attempt < 10; attempt++) {
        const double before = cycle();
        cycles = measure(stages, is_random, EXECUTED, layout, before, pages);
        const double change = cycle() / before;
        if (change > 0.99 && change < 1.01) break;
    }
    return cycles;
}

int main(void) {
    static const struct layout layouts[] = {
        {"in order", 192, 0, 0, PAGE, PAGE, 0, 0},
        {"shuffled in pages", 192, 0, 1, PAGE, PAGE, 0, 0},
        {"pages shuffled", 192, 1, 0, PAGE, PAGE, 0, 0},
        {"all shuffled", 192, 0, 2, PAGE, PAGE, 0, 0},
        {"across lines", 192, 0, 0, PAGE, PAGE, 32, 0},
        {"twice the pages", 192, 0, 0, PAGE / 2, PAGE, 0, 1},
        {"four times the pages", 192, 0, 0, PAGE / 4, PAGE, 0, 1},
        {"pages 1 MiB apart", 192, 0, 0, PAGE, 1 << 20, 0, 1},
        {"pages 16 MiB apart", 192, 0, 0, PAGE, 1 << 24, 0, 1},
        {"pages 1 MiB apart, aligned", 192, 0, 0, PAGE, 1 << 20, 0, 0},
        {"a page each", 192, 0, 0, 192, PAGE, 0, 1},
        {"a page each, same lines", 192, 0, 0, 192, PAGE, 0, 0},
    };
    static const int stages[] = {16, 64, 256, 512, 1024, 2048};
    enum { LAYOUTS = sizeof layouts / sizeof *layouts, SIZES = sizeof stages / sizeof *stages };
    static double cycles[2][SIZES][LAYOUTS][COPIES];
    static int pages[2][SIZES][LAYOUTS];
    // All cells by turns, so that what disturbs the machine for a while meets one copy of each.
    for (int copy = 0; copy < COPIES; copy++)
        for (int is_random = 0; is_random < 2; is_random++)
            for (int size = 0; size < SIZES; size++)
                for (int number = 0; number < LAYOUTS; number++) {
                    const struct layout *layout = &layouts[number];
                    if ((size_t)layout->page_distance * (2 * stages[size] / (layout->page_fill / EXECUTED)) > MOST_BYTES) continue;
                    cycles[is_random][size][number][copy] = measure_at_a_steady_clock(stages[size], is_random, layout, &pages[is_random][size][number]);
                }
    for (int is_random = 0; is_random < 2; is_random++)
        for (int size = 0; size < SIZES; size++)
            for (int number = 0; number < LAYOUTS; number++) {
                double *of_copies = cycles[is_random][size][number];
                if (!pages[is_random][size][number]) continue;
                qsort(of_copies, COPIES, sizeof *of_copies, compare);
                printf("%s\t%d\t%s\t%d\t%.1f\t%.1f\t%.1f\n", is_random ? "random" : "regular", 2 * stages[size], layouts[number].name,
                       pages[is_random][size][number], of_copies[0], of_copies[COPIES / 2], of_copies[COPIES - 1]);
            }
}
