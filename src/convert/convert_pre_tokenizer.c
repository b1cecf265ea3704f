#include "convert/convert_pre_tokenizer.h"

#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS      "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define REST         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *name, *pattern;
    int digits;
} known[] = {{"llama-bpe", CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST, 0},
             {"qwen2", CONTRACTIONS "|" LETTERS "|\\p{N}|" REST, 0},
             {"gpt-2", "", 0},
             {"smollm", "", 1},
             /* other names of the same patterns; conversion to a name takes the first */
             {"llama3", CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST, 0},
             {"llama-v3", CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST, 0},
             {"deepseek-r1-qwen", CONTRACTIONS "|" LETTERS "|\\p{N}|" REST, 0},
             {"phi-2", "", 0},
             {"olmo", "", 0},
             {"mpt", "", 0},
             {"starcoder", "", 1},
             {"refact", "", 1},
             {"command-r", "", 1}};

const char *gyre_pre_tokenizer_pattern(const char *name, int *digits) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            *digits = known[i].digits;
            return known[i].pattern;
        }
    return NULL;
}

const char *gyre_pre_tokenizer_name(const char *pattern, int digits) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].pattern, pattern) == 0 && known[i].digits == digits) return known[i].name;
    return NULL;
}
