"""Both languages have every text, every text is used, and values are filled in."""

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "explorer/src"
ENTRY = re.compile(r'^    "?([\w.-]+)"?:\s*\n?\s*"((?:[^"\\]|\\.)*)",?$', re.MULTILINE)
# Names that are the same in every language.
SAME = {"method.ntk", "method.llama3", "method.yarn", "yours.config"}


def strings(name: str) -> dict[str, str]:
    found = ENTRY.findall((SOURCE / name).read_text())
    keys = [key for key, _ in found]
    assert len(keys) == len(set(keys)), "a key stands twice"
    return dict(found)


EN, ZH = strings("strings_en.ts"), strings("strings_zh.ts")


def test_every_entry_is_read():
    """The pattern misses none: lines with a colon after a key are as many."""
    for name, found in (("strings_en.ts", EN), ("strings_zh.ts", ZH)):
        text = (SOURCE / name).read_text()
        assert len(found) == len(re.findall(r'^    (?:"[\w.-]+"|\w+):', text, re.MULTILINE)) > 150


def test_both_languages_have_every_key():
    assert EN.keys() == ZH.keys()


def test_every_key_is_used_and_every_use_has_a_key():
    code = "\n".join(path.read_text() for path in SOURCE.glob("*.ts") if not path.name.startswith("strings_"))
    unused = [key for key in EN if f'"{key}"' not in code]
    assert not unused
    used = set(re.findall(r'\bt\(\s*"([\w.-]+)"', code))
    assert used and used <= EN.keys()


def test_values_are_the_same_in_both():
    for key in EN:
        assert set(re.findall(r"\{\w+\}", EN[key])) == set(re.findall(r"\{\w+\}", ZH[key])), key


def test_chinese_is_chinese():
    for key, text in ZH.items():
        if key not in SAME:
            assert re.search(r"[\u4e00-\u9fff]", text), key
        assert not re.search(r"[\u4e00-\u9fff][,;:?!][\u4e00-\u9fff]", text), f"{key}: half-width punctuation"


def test_english_has_no_chinese():
    for key, text in EN.items():
        assert not re.search(r"[\u4e00-\u9fff]", text), key


def test_terms_of_the_field():
    words = "".join(ZH.values())
    for term in ("旋转位置编码", "位置插值", "高频外推", "低频内插", "波长", "困惑度", "远程衰减"):
        assert term in words, term
