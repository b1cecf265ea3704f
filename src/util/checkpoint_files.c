/* checkpoint_files.c: the list of a checkpoint's files. */
#include "util/checkpoint_files.h"

#include <string.h>

static const gyre_checkpoint_file files[] = {
    {GYRE_CONFIG_FILE, GYRE_CHECKPOINT_MODEL},
    {GYRE_WEIGHTS_FILE, GYRE_CHECKPOINT_MODEL},
    {GYRE_OPTIMIZER_FILE, GYRE_CHECKPOINT_TRAINING},
    {GYRE_TRAINING_FILE, GYRE_CHECKPOINT_TRAINING},
    {"README.md", GYRE_CHECKPOINT_NOTES},
    {"train.log", GYRE_CHECKPOINT_NOTES},
    {GYRE_TOKENIZER_FILE, GYRE_CHECKPOINT_TOKENIZER},
    {GYRE_TOKENIZER_CONFIG_FILE, GYRE_CHECKPOINT_TOKENIZER},
    {"tokenizer.model", GYRE_CHECKPOINT_TOKENIZER},
    {"special_tokens_map.json", GYRE_CHECKPOINT_TOKENIZER},
    {"added_tokens.json", GYRE_CHECKPOINT_TOKENIZER},
    {"vocab.json", GYRE_CHECKPOINT_TOKENIZER},
    {"merges.txt", GYRE_CHECKPOINT_TOKENIZER},
    {GYRE_CHAT_TEMPLATE_FILE, GYRE_CHECKPOINT_TOKENIZER},
    {GYRE_GENERATION_CONFIG_FILE, GYRE_CHECKPOINT_TOKENIZER},
};

const gyre_checkpoint_file *gyre_checkpoint_file_at(size_t index) {
    return index < sizeof files / sizeof *files ? &files[index] : NULL;
}

const gyre_checkpoint_file *gyre_checkpoint_file_of(const char *name) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i].name, name) == 0) return &files[i];
    return NULL;
}
