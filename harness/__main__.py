"""``python -m harness``: the command line."""

from __future__ import annotations

import os
import sys

# The current folder, which -m puts first, goes last: a user's own cases/ or reports/ must not hide ours.
if sys.path and sys.path[0] in ("", os.getcwd()):
    sys.path.append(sys.path.pop(0))

from .cli import main

main()
