"""
Answers what a plan asks about a class of the user's own: `python -m shardlab_torch.own_plan` with a request on stdin.

The answer is one line of JSON on stdout. What the user's code prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from .errors import Json, rank_error
from .parents_end import signal_at_parents_end

# A run that takes longer says what runs.
PATIENCE_SECONDS = 2


def main() -> int:
    """Answers the request on stdin: {"facts": ...}, or {"error": ...}."""
    signal_at_parents_end(signal.SIGKILL)
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        request = json.loads(sys.stdin.readline())
        shape = request["shape"]
        name = f"{shape['class']} of {os.path.basename(shape['python'])}"
        hint = threading.Timer(PATIENCE_SECONDS, lambda: print(f"running one microbatch of {name} on shapes, without values", file=sys.stderr))
        hint.daemon = True
        hint.start()
        answer: Json
        try:
            # An import of torch takes seconds.
            from .own_shapes import facts_of

            answer = {"facts": facts_of(request)}
        except KeyboardInterrupt:
            return 130
        except BaseException as error:
            answer = {"error": rank_error(error)}
        hint.cancel()
        sys.stdout.flush()
        json.dump(answer, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
