/* pre_tokenizer_patterns.c: the regular expressions of llama.cpp's pre-tokenizers. */
#include "tokenizer/pre_tokenizer_patterns.h"

#include <string.h>

#define CONTRACTIONS        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define PUNCT_SPACE_PATTERN " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3_PATTERN      CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" PUNCT_SPACE_PATTERN
#define QWEN2_PATTERN       CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" PUNCT_SPACE_PATTERN
#define QWEN35_PATTERN                                                                                                      \
    CONTRACTIONS                                                                                                            \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BLOOM_PATTERN " ?[^(\\s|.,!?…。，、।۔،)]+"
#define PUNCTUATION   "[\\p{P}$+<=>^~|]+"
/* CamelCase: lower-case letters after capitals, or capitals alone. */
#define UPPER                     "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER                     "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define PUNCT_SLASH_SPACE_PATTERN " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CASED_WORD_PATTERN(suffix)                                                                                          \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" suffix
#define DEEPSEEK3_PATTERN                                                                                                   \
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|"                     \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Letters with case, without the scripts that had no case when the pattern was written. */
#define NOT_CASED_LOW                                                                                                       \
    "\\x{560}-\\x{588}\\x{10C7}-\\x{10FF}\\x{1C80}-\\x{1C8F}\\x{1FBE}\\x{2D00}-\\x{2D2D}\\x{A790}-\\x{AB6F}"
#define NOT_CASED_HIGH "\\x{10570}-\\x{105BF}\\x{10D50}-\\x{10D8F}\\x{16E40}-\\x{16EDF}\\x{1D400}-\\x{1DFFF}"
#define DEEPSEEK_WORD                                                                                                       \
    "\\s?"                                                                                                                  \
    "[^"                                                                                                                    \
    "\\P{L&}" NOT_CASED_LOW NOT_CASED_HIGH "]+"
#define DEEPSEEK_PUNCTUATION "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"
#define DEEPSEEK_CJK         "[\\x{800}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+"

static const gyre_pre_tokenizer_patterns pre_tokenizers[] = {
    {" default ", 0, 0, {PUNCTUATION, GYRE_GPT2_PATTERN, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {" llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ", 1, 1, {LLAMA3_PATTERN}},
    {" dbrx smaug-bpe chatglm-bpe glm4 ", 0, 0, {LLAMA3_PATTERN}},
    {" minicpm5 ", 1, 0, {"\\p{N}{1,3}", CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+|" PUNCT_SPACE_PATTERN}},
    {" qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez kormo f2llmv2 grok-2 solar-open ", 0, 0, {QWEN2_PATTERN}},
    {" qwen35 ", 0, 0, {QWEN35_PATTERN}},
    {" gpt-2 phi-2 mpt olmo jais jina-es jina-de jina-v2-es jina-v2-de jina-v2-code gigachat trillion exaone4 a.x-4.0 "
     "mellum "
     "modern-bert granite-docling ",
     0,
     0,
     {GYRE_GPT2_PATTERN}},
    {" smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ", 0, 0, {"\\p{N}", GYRE_GPT2_PATTERN}},
    {" falcon ", 0, 0, {"[\\p{P}$+<=>^~|`]+", GYRE_GPT2_PATTERN, "[0-9][0-9][0-9]"}},
    {" bloom poro-chat gpt3-finnish ", 0, 0, {BLOOM_PATTERN}},
    {" viking ", 0, 0, {BLOOM_PATTERN, "\\p{N}"}},
    {" tekken ", 1, 1, {CASED_WORD_PATTERN("") "|\\p{N}|" PUNCT_SLASH_SPACE_PATTERN}},
    {" gpt-4o llama4 kanana2 minimax-m2 ",
     0,
     0,
     {CASED_WORD_PATTERN(CONTRACTIONS "?") "|\\p{N}{1,3}|" PUNCT_SLASH_SPACE_PATTERN}},
    {" deepseek-llm ", 0, 0, {"[\\r\\n]", DEEPSEEK_WORD, DEEPSEEK_PUNCTUATION, "\\s+$", DEEPSEEK_CJK, "\\p{N}+"}},
    {" deepseek-coder ", 0, 0, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"}},
    {" deepseek-v3 hunyuan-dense joyai-llm ",
     0,
     0,
     {"\\p{N}{1,3}", "[\\x{3040}-\\x{30FF}\\x{4E00}-\\x{9FA5}]+", DEEPSEEK3_PATTERN}},
};

/* 1 if `name` is one of the words of `names`, which are separated by spaces. */
static int contains_name(const char *names, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = names; length > 0 && (at = strstr(at, name)); at++)
        if (at > names && at[-1] == ' ' && at[length] == ' ') return 1;
    return 0;
}

const gyre_pre_tokenizer_patterns *gyre_pre_tokenizer_patterns_named(const char *name) {
    for (size_t i = 0; i < sizeof pre_tokenizers / sizeof *pre_tokenizers; i++)
        if (contains_name(pre_tokenizers[i].names, name)) return &pre_tokenizers[i];
    return NULL;
}
