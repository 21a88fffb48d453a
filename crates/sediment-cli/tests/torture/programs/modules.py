# Imports what the standard library has, but for what opens windows, browsers or needs another system; prints how much came.
import sys
import warnings

warnings.simplefilter("ignore")
PASSED = {"antigravity", "this", "idlelib", "tkinter", "turtle", "turtledemo", "test", "__main__", "msilib", "winreg", "winsound"}
names = sorted(name for name in sys.stdlib_module_names if name not in PASSED)
came = []
for name in names:
    try:
        __import__(name)
        came.append(name)
    except ImportError:
        pass
import hashlib
import json
import zlib

data = json.dumps(came).encode() * 20
print(len(came), hashlib.sha256(zlib.compress(data)).hexdigest(), flush=True)
sys.exit(9)
