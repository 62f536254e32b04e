"""JupyterLab that ends when the process that holds the other end of its standard input ends, however that happens."""
import os
import signal
import sys
import threading


def end_with_parent():
    while os.read(0, 4096):  # unbuffered: a lock on sys.stdin would outlive the interpreter
        pass
    os.kill(os.getpid(), signal.SIGTERM)


threading.Thread(target=end_with_parent, daemon=True).start()

# This folder's labconfig/ changes defaults: no question about news, no look for updates. What the user has set stays.
here = os.path.dirname(os.path.abspath(__file__))
others = os.environ.get("JUPYTER_CONFIG_PATH")
os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join([here, *([others] if others else [])])

from jupyterlab.labapp import main  # noqa: E402  (the watch begins first, and the path is set)

sys.exit(main())
