"""Small tokenizers, trained with the tokenizers package, in the shapes that models have."""

import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = """The quick brown fox jumps over the lazy dog. Don't panic: it's 1,234.56 EUR, isn't it?
def f(x):\n    return {"a": [1, 2, 3], 'b': x ** 2}  # comment\n\n\tif x <= 10: pass
Größe, naïve café, coöperate, über; ¿Qué tal, señor? Ça va où ? Żółć.
Привет, мир! Как дела? Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.
你好,世界。今天天气很好! こんにちは、世界。カタカナとひらがな 안녕하세요 세계
שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก
😀😃😄 👩‍👩‍👧‍👦 🇩🇪🇫🇷 👍🏽 ❤️ 1️⃣ ∑∫√≠≤ → ← ½ ² ① Ⅷ ﬁ
https://example.org/a?b=c&d=%20 foo_bar fooBar FOO-BAR x=0x1F; y+=3.14e-10;
""" * 4

LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
           r"\s+(?!\S)|\s+")
QWEN_2 = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT_4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
          r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(pattern=None, add_prefix_space=False, digits=None, special=("<|end|>",), normalizer=None, ignore_merges=False):
    """A byte-level BPE as of GPT-2 (no pattern), Llama 3, Qwen 2, Falcon (digits), trained on CORPUS."""
    out = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    steps = []
    if digits:
        steps += [pre_tokenizers.Digits(individual_digits=digits == "each")]
    if pattern:
        steps += [pre_tokenizers.Split(Regex(pattern), "isolated")]
    steps += [pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=pattern is None)]
    out.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)
    if normalizer:
        out.normalizer = normalizer
    out.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    out.train_from_iterator([CORPUS], trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, special_tokens=list(special)))
    out.add_tokens([AddedToken("<tool>", normalized=False, special=False)])
    return out


def pieces(metaspace=False, prepend="always", split=False):
    """sentencepiece's BPE with byte fallback, as of Llama 2 (Prepend and Replace) or Gemma and Mistral (Metaspace)."""
    if metaspace:
        step, normalizer = pre_tokenizers.Metaspace(prepend_scheme=prepend, split=split), None
    else:
        step = None
        normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    out = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if step:
        out.pre_tokenizer = step
    if normalizer:
        out.normalizer = normalizer
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=800, special_tokens=tokens, limit_alphabet=150, max_token_length=16)
    out.train_from_iterator(CORPUS.splitlines(), trainer)
    # The bytes are ordinary tokens of the vocabulary in a model's file; only the first three are special.
    text = json.loads(out.to_str())
    text["added_tokens"] = text["added_tokens"][:3]
    out = Tokenizer.from_str(json.dumps(text))
    out.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    if metaspace and prepend == "never":
        out.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return out


def with_begin(tokenizer, token):
    """The same with a template that puts a begin token first."""
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{token} $A", special_tokens=[(token, tokenizer.token_to_id(token))])
    return tokenizer


def unigram():
    out = Tokenizer(models.Unigram())
    out.pre_tokenizer = pre_tokenizers.Metaspace()
    out.train_from_iterator([CORPUS], trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>", special_tokens=["<unk>"]))
    return out


def word_piece():
    out = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    out.normalizer = normalizers.BertNormalizer()
    out.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    out.train_from_iterator([CORPUS], trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[UNK]", "[CLS]", "[SEP]"]))
    return out


def word_level():
    out = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    out.pre_tokenizer = pre_tokenizers.Whitespace()
    out.train_from_iterator([CORPUS], trainers.WordLevelTrainer(vocab_size=200, special_tokens=["[UNK]"]))
    return out


def plain_bpe(**options):
    """BPE over characters, neither byte-level nor with byte fallback."""
    out = Tokenizer(models.BPE(unk_token="[UNK]", **options))
    out.pre_tokenizer = pre_tokenizers.Whitespace()
    suffix = options.get("end_of_word_suffix", "")
    out.train_from_iterator([CORPUS], trainers.BpeTrainer(vocab_size=500, special_tokens=["[UNK]"], end_of_word_suffix=suffix))
    return out


# Read by Gyre with the same ids.
READ = {
    "gpt2": lambda: byte_level(),
    "gpt2, prefix space": lambda: byte_level(add_prefix_space=True),
    "llama3": lambda: with_begin(byte_level(LLAMA_3, ignore_merges=True, special=("<|begin|>", "<|end|>")), "<|begin|>"),
    "qwen2": lambda: byte_level(QWEN_2),
    "qwen2, NFC": lambda: byte_level(QWEN_2, normalizer=normalizers.NFC()),
    "gpt-4o": lambda: byte_level(GPT_4O),
    "digits": lambda: byte_level(digits="each"),
    "digits together": lambda: byte_level(digits="together"),
    "llama2": lambda: with_begin(pieces(), "<s>"),
    "mistral, metaspace first": lambda: with_begin(pieces(True, "first"), "<s>"),
    "metaspace always": lambda: pieces(True, "always"),
    "gemma, metaspace never": lambda: pieces(True, "never"),
    "metaspace, split": lambda: pieces(True, "always", True),
}

# Refused by Gyre, which names this.
REFUSED = {
    "unigram": (unigram, "Unigram"),
    "word piece": (word_piece, "WordPiece"),
    "word level": (word_level, "WordLevel"),
    "BPE of characters": (plain_bpe, "Whitespace"),
    "BPE with suffixes": (lambda: plain_bpe(end_of_word_suffix="</w>"), "suffix"),
}
