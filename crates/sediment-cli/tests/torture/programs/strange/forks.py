# SPDX-License-Identifier: MIT OR Apache-2.0
# python3 forks.py
# Python forks from threads, runs process pools, ctypes callbacks into qsort, signal wake-up descriptors, faulthandler dumps and deep recursion, and prints only sums.
import ctypes, faulthandler, multiprocessing, os, resource, signal, subprocess, sys, tempfile, threading, warnings
warnings.simplefilter("ignore")


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def from_threads():
    codes = []

    def run(i):
        for k in range(6):
            pid = os.fork()
            if pid == 0:
                os._exit((fib(10) + i + k) % 256 if threading.active_count() == 1 else 255)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    ts = [threading.Thread(target=run, args=(i,)) for i in range(6)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    return sum(codes)


def callbacks():
    libc = ctypes.CDLL(None)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    calls = 0

    def compare(a, b):
        nonlocal calls
        calls += 1
        return a[0] - b[0]
    arr = (ctypes.c_int * 2000)(*[(i * 7919) % 2003 for i in range(2000)])
    libc.qsort(arr, 2000, 4, kind(compare))
    return list(arr) == sorted(arr), calls


def wakeups():
    r, w = os.pipe2(os.O_NONBLOCK)
    seen = []
    old = signal.set_wakeup_fd(w)
    signal.signal(signal.SIGUSR1, lambda s, f: seen.append(f is not None))
    for _ in range(500):
        signal.raise_signal(signal.SIGUSR1)
    signal.set_wakeup_fd(old)
    n = len(os.read(r, 4096))
    os.close(r), os.close(w)
    return n, sum(seen)


def dump():
    with tempfile.TemporaryFile("w+") as f:
        faulthandler.register(signal.SIGUSR2, file=f, all_threads=False)

        def deep(n):
            if n:
                deep(n - 1)
            else:
                os.kill(os.getpid(), signal.SIGUSR2)
        deep(30)
        faulthandler.unregister(signal.SIGUSR2)
        f.seek(0)
        return f.read().count(" in deep")


def crash(code):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    p = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], stderr=subprocess.PIPE)
    return p.returncode, b"Fatal Python error" in p.stderr


def recurse(n):
    return 0 if n == 0 else 1 + recurse(n - 1)


if __name__ == "__main__":
    print("threads", from_threads())
    print("callbacks", *callbacks())
    print("wake-ups", *wakeups())
    print("frames", dump())
    with multiprocessing.get_context("fork").Pool(4) as pool:
        print("pool", sum(pool.imap_unordered(fib, [12] * 200)))
    out = subprocess.run(["cat"], input=b"x" * 300000, stdout=subprocess.PIPE, start_new_session=True, preexec_fn=lambda: os.nice(1)).stdout
    print("cat", len(out))
    r, w = os.pipe()
    subprocess.run(["sh", "-c", f"echo passed >/dev/fd/{w}"], pass_fds=[w], close_fds=True)
    print(os.read(r, 100).decode().strip())
    print("crash", *crash("import ctypes; ctypes.string_at(8)"), *crash("import os; os.abort()"))
    try:
        subprocess.run(["/nonexistent/program"])
    except FileNotFoundError as e:
        print("missing", e.errno)
    sys.setrecursionlimit(20000)
    threading.stack_size(64 << 20)
    res = []
    t = threading.Thread(target=lambda: res.append(recurse(15000)))
    t.start()
    t.join()
    print("recursion", *res)
    sys.stdout.flush()
    if os.fork() == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    print("interrupted", os.waitstatus_to_exitcode(os.wait()[1]))
