"""Prints a C program that prints what abidiff does not see in the public headers of a folder: the value of every enumerator,
as those of flags are in no function's type, and the alignment of every type, on which its place in a call depends.

    header_values.py INCLUDE/gyre
"""

import pathlib
import re
import sys

headers = sorted(path for path in pathlib.Path(sys.argv[1]).glob("*.h") if path.name != "gyre_mpi.h")
names, structs = [], []
for header in headers:
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text):
        names += [part.split("=")[0].strip() for part in body.split(",") if part.strip()]
    structs += re.findall(r"^\}[^;]*?\b(gyre_\w+);", text, flags=re.MULTILINE)
    structs += re.findall(r"\btypedef (?:struct|enum)\b[^{;]*\{[^}\n]*\}[^;]*?\b(gyre_\w+);", text)
if len(names) < 100 or len(structs) < 60:
    sys.exit(f"{sys.argv[1]}: {len(names)} enumerators and {len(structs)} types, too few to be right")
print("#include <stdio.h>")
print("".join(f"#include <gyre/{header.name}>\n" for header in headers))
print("int main(void) {")
print("".join(f'    printf("{name} %d\\n", (int){name});\n' for name in names))
print("".join(f'    printf("_Alignof({name}) %zu\\n", _Alignof({name}));\n' for name in dict.fromkeys(structs)))
print("    return 0;\n}")
