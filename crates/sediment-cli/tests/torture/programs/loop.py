# Imports modules one by one, for as long as it is let, and checks what they make. Ends by SIGTERM.
import importlib
import signal
import sys

over = []
signal.signal(signal.SIGTERM, lambda number, frame: over.append(number))
print("ready", flush=True)
NAMES = ["_json", "_bisect", "_heapq", "_struct", "math", "zlib", "_hashlib", "_decimal", "_sqlite3", "_ctypes", "select", "_ssl", "_lzma", "_bz2", "_csv", "array"]
round = 0
wrong = 0
while not over:
    name = NAMES[round % len(NAMES)]
    sys.modules.pop(name, None)
    try:
        importlib.import_module(name)
    except ImportError:
        pass
    total = sum(x * x for x in range(1000))
    wrong += total != 332833500
    round += 1
print("wrong" if wrong else "well", flush=True)
sys.exit(9)
