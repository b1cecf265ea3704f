"""Writes a file of abidw with a break in it, which the comparisons of ci/abi must refuse, or with growth that they must not.

    spoil.py swap IN OUT      two fields of gyre_shape change places
    spoil.py grow IN OUT      gyre_config has a new field at its end, and so gyre_layer_reading, which ends in it, is larger
    spoil.py append IN OUT    as grow, and gyre_layer_reading has another one behind its config
"""

import sys
import xml.etree.ElementTree as ElementTree

FIELD = 64  # bits of what is appended: an int64_t


def main():
    kind, source, target = sys.argv[1:]
    tree = ElementTree.parse(source)
    structs = {node.get("name"): node for node in tree.iter("class-decl") if node.get("is-declaration-only") != "yes"}

    def grow(name):
        structs[name].set("size-in-bits", str(int(structs[name].get("size-in-bits")) + FIELD))

    def append(name):
        end = structs[name].get("size-in-bits")
        member = ElementTree.SubElement(structs[name], "data-member", {"access": "public", "layout-offset-in-bits": end})
        number = structs["gyre_shape"].find("data-member/var-decl").get("type-id")
        ElementTree.SubElement(member, "var-decl", {"name": "appended", "type-id": number, "visibility": "default"})
        grow(name)

    if kind == "swap":
        first, second = (member.find("var-decl") for member in structs["gyre_shape"].findall("data-member")[:2])
        names = first.get("name"), second.get("name")
        second.set("name", names[0])
        first.set("name", names[1])
    else:
        append("gyre_config")
        grow("gyre_layer_reading")
        if kind == "append":
            append("gyre_layer_reading")
    tree.write(target)


main()
