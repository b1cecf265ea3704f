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

    def sized_end(self, struct):
        """out = the name of the struct that is the last field, if that begins with size, else None: such structs are the library's
        to allocate, and they grow by what their last field grows, and by nothing else."""
        last = max(struct.findall("data-member"), key=lambda member: int(member.get("layout-offset-in-bits")), default=None)
        if last is None:
            return None
        node = self.types[last.find("var-decl").get("type-id")]
        while node.tag == "typedef-decl":
            node = self.types[node.get("type-id")]
        return node.get("name") if node.tag == "class-decl" and "size" in self.fields(node) else None

    def bits(self, name):
        return int(self.structs[name].get("size-in-bits"))


def compare(before, after):
    for name, struct in sorted(before.structs.items()):
        if name not in after.structs:
            yield f"{name}: is gone"
            continue
        old, new = before.fields(struct), after.fields(after.structs[name])
        size, size_now = before.bits(name), after.bits(name)
        for field, (offset, kind) in old.items():
            if new.get(field) != (offset, kind):
                yield f"{name}.{field}: was {kind} at bit {offset}, is {new.get(field, 'gone')}"
        for field in new.keys() - old.keys():
            if new[field][0] < size:
                yield f"{name}.{field}: is new at bit {new[field][0]}, inside the {size} bits that older programs know"
        if "size" in old:
            continue
        end = before.sized_end(struct)
        size_due = size + (after.bits(end) - before.bits(end) if end in after.structs else 0)
        if size_now != size_due:
            yield f"{name}: of {size} bits, now {size_now} instead of {size_due}, and it does not begin with size"
        elif new.keys() - old.keys():
            yield f"{name}: has new fields, {', '.join(sorted(new.keys() - old.keys()))}, and it does not begin with size"


def main():
    before, after = Abi(sys.argv[1]), Abi(sys.argv[2])
    if len(before.structs) < 20:
        sys.exit(f"{sys.argv[1]}: {len(before.structs)} structs, too few to be right")
    found = list(compare(before, after))
    sys.exit("\n".join(found) or 0)


main()
