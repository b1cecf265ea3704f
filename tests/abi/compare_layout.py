"""Compares the layout of public structs, and the types of their fields, in two files of abidw.

abidiff is told to accept growth at the end of structs that begin with size, and then accepts what else changes in the same
struct too.  Here every field of the baseline keeps its offset and its type, and a new one lies behind the old size, not in
its padding, which older programs leave unset.

    compare_layout.py BASELINE TODAY
"""

import sys
import xml.etree.ElementTree as ElementTree


class Abi:
    def __init__(self, path):
        self.types, self.structs = {}, {}
        for node in ElementTree.parse(path).iter():
            if "id" in node.attrib:
                self.types[node.get("id")] = node
            if node.tag == "class-decl" and node.get("is-declaration-only") != "yes":
                self.structs[node.get("name")] = node

    def type_name(self, type_id):
        """out = the type in words: structs and enums by name, what pointers and callbacks point to in full."""
        node = self.types[type_id]
        if node.tag in ("pointer-type-def", "typedef-decl", "qualified-type-def", "array-type-def"):
            inner = self.type_name(node.get("type-id"))
            extents = [subrange.get("length") for subrange in node.findall("subrange")]
            return f"{node.tag} {node.get('name', '')}{extents} of {inner}"
        if node.tag == "function-type":
            parts = node.findall("parameter") + node.findall("return")
            return "function(" + ", ".join(self.type_name(part.get("type-id")) for part in parts) + ")"
        return f"{node.tag} {node.get('name')} {node.get('size-in-bits', '') if node.tag == 'type-decl' else ''}"

    def fields(self, struct):
        out = {}
        for member in struct.findall("data-member"):
            variable = member.find("var-decl")
            out[variable.get("name")] = (int(member.get("layout-offset-in-bits")), self.type_name(variable.get("type-id")))
        return out


    def ends_in_sized(self, struct):
        """out = whether the last field is itself a struct that begins with size: such structs are the library's to allocate."""
        last = max(struct.findall("data-member"), key=lambda member: int(member.get("layout-offset-in-bits")), default=None)
        if last is None:
            return False
        node = self.types[last.find("var-decl").get("type-id")]
        while node.tag == "typedef-decl":
            node = self.types[node.get("type-id")]
        return node.tag == "class-decl" and "size" in self.fields(node)


def compare(before, after):
    for name, struct in sorted(before.structs.items()):
        if name not in after.structs:
            yield f"{name}: is gone"
            continue
        old, new = before.fields(struct), after.fields(after.structs[name])
        size, size_now = (int(s.get("size-in-bits")) for s in (struct, after.structs[name]))
        for field, (offset, kind) in old.items():
            if new.get(field) != (offset, kind):
                yield f"{name}.{field}: was {kind} at bit {offset}, is {new.get(field, 'gone')}"
        for field in new.keys() - old.keys():
            if new[field][0] < size:
                yield f"{name}.{field}: is new at bit {new[field][0]}, inside the {size} bits that older programs know"
        if "size" not in old and size_now != size and not before.ends_in_sized(struct):
            yield f"{name}: of {size} bits, now {size_now}, and it does not begin with size"


def main():
    before, after = Abi(sys.argv[1]), Abi(sys.argv[2])
    if len(before.structs) < 20:
        sys.exit(f"{sys.argv[1]}: {len(before.structs)} structs, too few to be right")
    found = list(compare(before, after))
    print("\n".join(found), file=sys.stderr if found else sys.stdout)
    sys.exit(1 if found else 0)


main()
