#include "convert/convert_pre_tokenizer.h"

#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS      "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define REST         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const gyre_named_pre_tokenizer known[] = {
    {"llama-bpe", CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST, 0, 1, 1, 0},
    {"smaug-bpe", CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST, 0, 0, 0, 0},
    {"qwen2", CONTRACTIONS "|" LETTERS "|\\p{N}|" REST, 0, 0, 0, 1},
    {"gpt-2", "", 0, 0, 0, 0},
    {"smollm", "", 1, 0, 0, 0},
    /* other names of the same; conversion to a name takes the first with that nfc, else the first */
    {"llama3", CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST, 0, 1, 1, 0},
    {"llama-v3", CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST, 0, 1, 1, 0},
    {"dbrx", CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST, 0, 0, 0, 0},
    {"deepseek-r1-qwen", CONTRACTIONS "|" LETTERS "|\\p{N}|" REST, 0, 0, 0, 0},
    {"phi-2", "", 0, 0, 0, 0},
    {"olmo", "", 0, 0, 0, 0},
    {"mpt", "", 0, 0, 0, 0},
    {"starcoder", "", 1, 0, 0, 0},
    {"refact", "", 1, 0, 0, 0},
    {"command-r", "", 1, 0, 0, 0}};

const gyre_named_pre_tokenizer *gyre_pre_tokenizer_named(const char *name) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) return &known[i];
    return NULL;
}

const char *gyre_pre_tokenizer_name(const char *pattern, int digits, int ignore_merges, int nfc) {
    const char *name = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].pattern, pattern) != 0 || known[i].digits != digits || known[i].ignore_merges != ignore_merges)
            continue;
        if (known[i].nfc == nfc) return known[i].name;
        if (!name) name = known[i].name;
    }
    return name;
}
