# SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder print for both.py, which compares it between two libraries."""
import sys


def value(name, numbers, tolerance=1e-6):
    """One line with @numbers, exact, as one write: lines of several ranks come mixed, but whole."""
    words = ["VALUE", name, "%g" % tolerance] + [float(x).hex() for x in numbers]
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def must(holds, what):
    if not holds:
        raise AssertionError(what)
