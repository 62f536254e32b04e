"""Runs JupyterLab, and ends it when its standard input ends, which also happens if the parent process is killed."""
import os
import signal
import sys
import threading


def end_with_parent():
    while os.read(0, 4096):  # not sys.stdin, whose lock this thread would still hold at the interpreter's end
        pass
    os.kill(os.getpid(), signal.SIGTERM)


threading.Thread(target=end_with_parent, daemon=True).start()

# labconfig/ changes defaults: JupyterLab does not ask about news or check for updates. The user's settings have priority.
here = os.path.dirname(os.path.abspath(__file__))
others = os.environ.get("JUPYTER_CONFIG_PATH")
os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join([here, *([others] if others else [])])

from jupyterlab.labapp import main  # noqa: E402  (before this import, the watch begins and the path is set)

sys.exit(main())
