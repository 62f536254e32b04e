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

from jupyterlab.labapp import main  # noqa: E402  (the watch begins first)

sys.exit(main())
