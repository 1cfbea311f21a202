#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes deploy/kubernetes/rendered anew, by the helm that from_modules.py builds."""

import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the sources
TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "deploy/kubernetes"))
import from_modules  # noqa: E402
import manifests  # noqa: E402


def helm(*arguments):
    """Output of helm, which must succeed."""
    done = subprocess.run([from_modules.BIN / "helm", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"helm {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    from_modules.main()
    manifests.write(helm)
