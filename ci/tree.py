# SPDX-License-Identifier: Apache-2.0
"""What the checks share: the files of the tree, C text without its comments, the verdict.

Every check takes the root of a tree as its argument (default: this repository), prints
FILE:LINE: what is wrong, and exits 1 if there was anything."""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def root():
    return os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else HERE


def files(pattern="", top=None):
    """Files of the tree whose path matches, sorted: what git tracks or would track, else all."""
    top = top or root()
    if os.path.exists(os.path.join(top, ".git")):
        command = ["git", "-C", top, "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        names = [n for n in names if os.path.isfile(os.path.join(top, n))]
    else:
        names = [os.path.relpath(os.path.join(d, f), top) for d, _, fs in os.walk(top) for f in fs]
    return sorted(set(n for n in names if re.search(pattern, n)))


def read(name, top=None):
    with open(os.path.join(top or root(), name), encoding="utf-8", errors="replace") as f:
        return f.read()


def code(text, strings=False):
    """C text with comments, and unless @strings the insides of literals, made blank; lines stay."""
    def blank(match):
        found = match.group(0)
        if found[0] == "/":
            return re.sub(r"[^\n]", " ", found)
        return found if strings else found[0] + " " * (len(found) - 2) + found[-1]
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def no_directives(text):
    """C text without the preprocessor's lines."""
    return re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.M | re.S)


def api_functions(top=None):
    """Names of the TAUT_API functions of taut.h."""
    text = no_directives(code(read("include/taut/taut.h", top)))
    return re.findall(r"^TAUT_API\s[^;(]*?(\w+)\s*\(", text, flags=re.M)


def nccl_functions(top=None):
    """Names of the functions of nccl.h: TAUT_NCCL(result, name, params) declares name and pname."""
    text = no_directives(code(read("include/nccl.h", top)))
    names = re.findall(r"\bTAUT_NCCL\([^,]*,\s*(\w+),", text)
    return [form + name for name in names for form in ("", "p")]


def verdict(name, errors, checked, what="files"):
    """Prints the errors and ends the program. Nothing to check is an error too."""
    if not checked:
        errors = errors + ["%s: found no %s to check" % (name, what)]
    for error in errors:
        print(error)
    print("%s: %d %s, %s" % (name, checked, what, "%d errors" % len(errors) if errors else "ok"))
    sys.exit(1 if errors else 0)
