"""Prints a C program that prints the value of every enumerator in the public headers of a folder: those of flags are in no
function's type, so abidiff does not see them.

    enumerators.py INCLUDE/gyre
"""

import pathlib
import re
import sys

headers = sorted(path for path in pathlib.Path(sys.argv[1]).glob("*.h") if path.name != "gyre_mpi.h")
names = []
for header in headers:
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text):
        names += [part.split("=")[0].strip() for part in body.split(",") if part.strip()]
if len(names) < 100:
    sys.exit(f"{sys.argv[1]}: {len(names)} enumerators, too few to be right")
print("#include <stdio.h>")
print("".join(f"#include <gyre/{header.name}>\n" for header in headers))
print("int main(void) {")
print("".join(f'    printf("{name} %d\\n", (int){name});\n' for name in names))
print("    return 0;\n}")
