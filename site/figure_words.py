"""The words of figures in Chinese: the Chinese site shows docs/figures with their texts translated."""

from __future__ import annotations

import re
from html import escape, unescape

# Texts as gyre plot writes them.
WORDS = {
    "pair of channels": "维度对",
    "pair": "维度对",
    "distance from query to key (tokens)": "查询到键的距离（词元）",
    "angle between query and key (rad); grey: too fast to draw": "查询与键的夹角（弧度）；灰色：转得太快，画不出来",
    "1 or more": "1 以上",
    "past the arc that training showed, in arcs": "超出训练见过的弧，以弧长计",
    "token nearer.": "个词元时。",
    "ramp of yarn": "yarn 的斜坡",
    "kept": "保留",
    "blended": "过渡",
    "tokens for one turn": "转一圈要多少词元",
    "query (token)": "查询（词元）",
    "key (token)": "键（词元）",
    "query (tokens)": "查询（词元）",
    "key (tokens)": "键（词元）",
    "query - key (tokens)": "查询 − 键（词元）",
    "mean weight": "平均权重",
    "distance (tokens)": "距离（词元）",
    "distance s (tokens)": "距离 s（词元）",
    "position (tokens)": "位置（词元）",
    "context (tokens)": "上下文（词元）",
    "along the pairs": "沿着维度对看",
    "from above": "从上看",
    "from the side": "从侧面看",
    "mean (1 at distance 0)": "均值（距离 0 处为 1）",
    "mean of q · R(s)q / |q|² over q; band: its range in an octave": "q · R(s)q / |q|² 对 q 的均值；色带：一个倍程内的范围",
    "bound / largest |h_i - h_(i+1)|": "上界 / 最大的 |h_i - h_(i+1)|",
    "Su's bound, mean of |S_i|": "苏剑林的上界：|S_i| 的均值",
    "frequency divided by": "频率除以",
    "by pair: fast ones left": "按维度对：快的在左",
    "turns in the trained length (log)": "训练长度内转过的圈数（对数）",
    "by turns in the trained length: slow ones left": "按训练长度内的圈数：慢的在左",
    "added to the score": "加到得分上",
    "row of the table": "表中的行",
    "KERPLE, before training": "KERPLE，训练之前",
    "FIRE, before training": "FIRE，训练之前",
    "T5, row of the table": "T5，表中的行",
    "DeBERTa, row of the table": "DeBERTa，表中的行",
    "Perplexity by context length": "困惑度随上下文长度的变化",
    "trained": "训练长度",
    "perplexity (log); band: 95 %": "困惑度（对数）；色带：95 %",
    "perplexity (log)": "困惑度（对数）",
    "Keys found, by length": "找到的密钥，按长度",
    "keys found (%)": "找到的密钥（%）",
    "keys found (%); band: 95 %": "找到的密钥（%）；色带：95 %",
    "lab-bundled: encodings": "lab-bundled：各种编码",
    "lab-bundled: methods, not fine-tuned": "lab-bundled：各种方法，不训练",
    "lab-bundled: methods, fine-tuned": "lab-bundled：各种方法，微调",
    "What is added to a token at each position": "每个位置上加到词元里的向量",
    "channel": "维度",
    "sinusoid, sin and cos in turn": "正弦编码，sin 与 cos 交替",
    "sinusoid, sines first": "正弦编码，sin 全在前面",
    "cosine of the two rows": "两行的余弦",
    "position p": "位置 p",
    "position p + k": "位置 p + k",
    "one-hot: one channel for each position": "独热：每个位置一维",
    "binary digits: each half as fast as the one above it": "二进制：每一位都比上一位慢一半",
    "repeats after": "重复周期",
    "digit": "位",
    "-1 (digits: 0)": "−1（二进制：0）",
    "position": "位置",
    "past 12 hours: the same again": "过了 12 小时：又和先前一样",
    "no two moments look alike": "没有两个时刻看上去相同",
    "a turn in": "转一圈要",
    "from the end": "顺着轴看",
    "cos, from above; sin, from the side (dashed)": "cos：从上看；sin（虚线）：从侧面看",
    "turns (grey: without whole turns)": "圈数（灰色：去掉整圈）",
    "exact: double, rounded once (Gyre)": "精确：双精度，只舍入一次（Gyre）",
    "transformers: all in float": "transformers：全用单精度",
    "llama.cpp: running product in float": "llama.cpp：单精度连乘",
    "vLLM: float table kept in bfloat16": "vLLM：单精度表存成 bfloat16",
    "positions in bfloat16": "位置用 bfloat16",
    "largest error of cos and sin, 16 positions": "cos 与 sin 的最大误差，16 个位置",
    "rounding of bfloat16 below 1: 2⁻⁹": "bfloat16 在 1 以下的舍入：2⁻⁹",
}
# Texts with numbers in them.
PATTERNS = [
    (r"Angles of (\S+) pairs, trained on (\S+) tokens, read up to (\S+) \(base (\S+)\)", r"\1 个维度对的夹角：训练长度 \2，读到 \3（底数 \4）"),
    (r"Query and key (\S+) tokens apart, pair by pair: trained on (\S+) tokens", r"查询与键相距 \1 个词元，逐对来看：训练长度 \2"),
    (r"as trained, at (\S+)", r"训练时，相距 \1"),
    (r"(none|linear|ntk|yarn), at (\S+)", r"\1，相距 \2"),
    (r"pair (\d+)", r"第 \1 对"),
    (r"(\S+) turns?", r"\1 圈"),
    (r"(\S+) turns?, (\S+) % past", r"\1 圈，超出 \2 %"),
    (r"1 turn in (\S+) tokens", r"\1 词元一圈"),
    (r"The key is at the top\. +The hand is the query, so many tokens later: .* +Grey: one",
     "键在正上方，指针是若干词元之后的查询：得分只看得见两者的夹角，与它们各在哪里无关。灰色：距离少一"),
    (r"Blue: the angles between query and key that training showed\. .*",
     "蓝色：训练见过的查询与键的夹角。超出去的指针有颜色，刚超出是黄的，超出整整一段弧是红的。"),
    (r"Wavelength of each pair: trained on (\S+) tokens, stretched to (\S+) \(base (\S+)\)", r"每一对的波长：训练长度 \1，扩展到 \2（底数 \3）"),
    (r"divided by (\S+)", r"除以 \1"),
    (r"trained, (\S+)", r"训练长度 \1"),
    (r"wanted, (\S+)", r"目标 \1"),
    (r"Attention weights of layer (\d+) of (\S+), (\d+) tokens \(log colours from (\S+)\)", r"\2 第 \1 层的注意力权重，\3 个词元（颜色取对数，从 \4 起）"),
    (r"head (\d+), (\S+)", r"第 \1 头，\2"),
    (r"Position (\d+) as RoPE writes it: (.*) over (\d+) pairs, (m = \d+)", r"位置 \1 在 RoPE 里的样子：\3 个维度对的 \2，\4"),
    (r"base (\d+)", r"底数 \1"),
    (r"Decay of a rotated inner product with distance, heads of (\d+) channels", r"旋转之后的内积随距离的衰减，每头 \1 维"),
    (r"What each method divides the frequencies by: trained on (\S+) tokens, stretched to (\S+)", r"各种方法把频率除以多少：训练长度 \1，扩展到 \2"),
    (r"What is added to a score, or which row of a trained table: (\d+) queries and keys; .*",
     r"加到得分上的值，或用到训练所得的表里哪一行：\1 个查询与键；线旁的数是头的编号"),
    (r"A clock made for (\d+) s, read at (\d+) s of (\d+) s", r"为 \1 秒造的钟，在 \3 秒里的第 \2 秒读"),
    *((rf"{hand}: (\S+)°/s, (\S+) turns? in all{slowed}", rf"{name}：每秒 \1°，共 \2 圈{slower}")
      for hand, name in (("second", "秒针"), ("minute", "分针"), ("hour", "时针"))
      for slowed, slower in (("", ""), (r", slowed by (\S+)", r"，放慢到 1/\3"))),
    (r"Pairs turn with the position: e\^\(i m θ\), m = 0 to (\d+), base (\S+)",
     r"维度对随位置转动：e^(i m θ)，m 从 0 到 \1，底数 \2"),
    (r"(\S+) tokens", r"\1 个词元"),
    (r"how alike row (\d+) and the others are", r"第 \1 行与其他行有多像"),
    (r"One matrix moves every row of a sinusoid by (k = \S+); largest difference (\S+)", r"一个矩阵把正弦编码的每一行都挪 \1；最大误差 \2"),
    (r"Positions 0 to (\d+), written in three ways", r"位置 0 到 \1 的三种写法"),
    (r"sinusoid: smooth digits; each pair (\S+) times slower than the one above it", r"正弦编码：平滑的数位；每一对都比上一对慢 \1 倍"),
    (r"Error of cos and sin by position: (\d+) channels, base (\S+)", r"cos 与 sin 的误差随位置的变化：\1 维，底数 \2"),
]
# Names and signs that are the same in both languages.
SAME = re.compile(
    r"[^A-Za-z]*|[-+]?[\d.]+[kMe]?[-+\d]*|cos|sin|(?:cos|sin) \d+|M_k|PE\(p(?: \+ k)?\)|[-\d.]*π(?:/2)?|ALiBi|Sandwich|none|linear|ntk"
    r"|\d+\+k|dynamic|by-parts|by-parts-paper|yarn|llama3|rerope|self-extend"
    r"|ntk-mixed|alibi|learned|nope|rope|sinusoidal"
)
TEXT = re.compile(r"(<text\b[^>]*>)(.*?)(</text>)", re.DOTALL)


def chinese(text: str) -> str | None:
    """The text in Chinese; None if it has no translation."""
    if text in WORDS:
        return WORDS[text]
    for pattern, words in PATTERNS:
        if re.fullmatch(pattern, text):
            return re.sub(pattern, words, text)
    return text if SAME.fullmatch(text) else None


def translate(svg: str) -> tuple[str, list[str]]:
    """The figure with its texts in Chinese, and the texts that have no translation."""
    missing: list[str] = []

    def piece(found: re.Match[str]) -> str:
        text = unescape(found[0]).strip()
        words = chinese(text) if text else text
        if words is None:
            missing.append(text)
        return found[0] if words is None or words == text else escape(words, quote=False)

    def inside(found: re.Match[str]) -> str:
        return found[1] + re.sub(r"(?<=>)[^<]+(?=<)|^[^<]+(?=<|$)", piece, found[2]) + found[3]

    return TEXT.sub(inside, svg), missing
