// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -shared -fPIC -DLIB -o plugin.so plugin.c && cc -O2 -Wall -rdynamic -o plugin plugin.c */
/* Opens and closes a plug-in again and again with constructors, ifuncs and two TLS models, in name spaces of dlmopen and as a preloaded interposer of libc calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LIB
static int built, *out;
static __thread int gd = 7;
static __thread int ie __attribute__((tls_model("initial-exec"))) = 9;
__thread int *volatile tls_ptr;
static void __attribute__((constructor(200))) early(void) { built = built * 10 + 1; }
static void __attribute__((constructor(300))) late(void) { built = built * 10 + 2; }
static void __attribute__((destructor)) gone(void) { if (out) *out += 1; }
static int twice(int x) { return 2 * x; }
static int thrice(int x) { return 3 * x; }
static void *pick(void) { return __builtin_cpu_init(), __builtin_cpu_supports("sse2") ? (void *)twice : (void *)thrice; }
int resolved(int) __attribute__((ifunc("pick")));
int plugin_run(int x, int *o)
{
    out = o;
    gd += x;
    ie += gd;
    tls_ptr = &gd;
    return built * 100 + resolved(x) + gd + ie + *tls_ptr;
}
/* interposed when preloaded */
size_t strspn(const char *s, const char *a)
{
    static size_t (*next)(const char *, const char *);
    if (!next)
        next = (size_t(*)(const char *, const char *))dlsym(RTLD_NEXT, "strspn");
    return next(s, a) + 1000;
}
int atoi(const char *s)
{
    int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "atoi");
    return next(s) * 2;
}
#else
static int loaded(struct dl_phdr_info *i, size_t n, void *p)
{
    (void)n;
    *(int *)p += strstr(i->dlpi_name, "plugin.so") != NULL;
    return 0;
}

typedef int run(int, int *);

int main(int argc, char **argv)
{
    char so[4096];
    ssize_t n = readlink("/proc/self/exe", so, sizeof so - 8);
    if (n < 0)
        return 1;
    strcpy(so + n, ".so");
    if (argc > 1) { /* the preloaded child */
        size_t (*volatile f)(const char *, const char *) = strspn;
        int (*volatile g)(const char *) = atoi, s = 0;
        for (int i = 0; i < 1000; i++)
            s += f("aab", "a") + g("21") == 1044;
        return s == 1000 ? 44 : 1;
    }
    int destroyed = 0, seen = 0, where = 0;
    long sum = 0;
    void *first = NULL;
    for (int i = 0; i < 700; i++) {
        void *h = dlopen(so, i % 2 ? RTLD_NOW : RTLD_LAZY), *pad = NULL;
        run *r = h ? (run *)dlsym(h, "plugin_run") : NULL;
        if (!r) {
            puts(dlerror());
            return 1;
        }
        for (int k = 0; k < 20; k++)
            sum += r(k, &destroyed);
        dl_iterate_phdr(loaded, &seen);
        where += first == (void *)r;
        first = r;
        if (i % 50 == 0) /* force another address next time */
            pad = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        dlclose(h);
        dl_iterate_phdr(loaded, &seen);
        if (pad)
            munmap(pad, 1 << 16);
    }
    printf("sum %ld, destroyed %d, seen %d, addresses %s\n", sum, destroyed, seen, where > 100 ? "re-used" : "always new");
    int spaces = 0, gone2 = 0;
    for (int i = 0; i < 60; i++) {
        void *h[3];
        int v[3];
        for (int k = 0; k < 3; k++) {
            h[k] = dlmopen(LM_ID_NEWLM, so, RTLD_NOW | RTLD_LOCAL);
            run *r = h[k] ? (run *)dlsym(h[k], "plugin_run") : NULL;
            if (!r) {
                puts(dlerror());
                return 1;
            }
            v[k] = r(5, &gone2);
        }
        spaces += v[0] == v[1] && v[1] == v[2];
        for (int k = 3; k-- > 0;)
            dlclose(h[k]);
    }
    printf("name spaces %d, destroyed %d\n", spaces, gone2);
    int inter = 0, st;
    for (int i = 0; i < 60; i++) {
        pid_t p = fork();
        if (p == 0) {
            setenv("LD_PRELOAD", so, 1);
            setenv("LD_BIND_NOW", "1", i % 2);
            execl("/proc/self/exe", argv[0], "x", NULL);
            _exit(1);
        }
        inter += waitpid(p, &st, 0) == p && WIFEXITED(st) && WEXITSTATUS(st) == 44;
    }
    printf("interposed %d\n", inter);
    return 0;
}
#endif
