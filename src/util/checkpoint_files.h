/* checkpoint_files.h: the names of the files in a checkpoint's folder. */
#ifndef GYRE_UTIL_CHECKPOINT_FILES_H
#define GYRE_UTIL_CHECKPOINT_FILES_H
#include <stddef.h>

#define GYRE_CONFIG_FILE            "config.json"
#define GYRE_WEIGHTS_FILE           "model.safetensors"
#define GYRE_WEIGHTS_INDEX_FILE     "model.safetensors.index.json"
#define GYRE_OPTIMIZER_FILE         "optimizer.safetensors"
#define GYRE_TRAINING_FILE          "training.json"
#define GYRE_TOKENIZER_FILE         "tokenizer.json"
#define GYRE_TOKENIZER_CONFIG_FILE  "tokenizer_config.json"
#define GYRE_CHAT_TEMPLATE_FILE     "chat_template.jinja"
#define GYRE_GENERATION_CONFIG_FILE "generation_config.json"

typedef enum gyre_checkpoint_role {
    GYRE_CHECKPOINT_MODEL,     /* config and weights */
    GYRE_CHECKPOINT_TRAINING,  /* what training continues from */
    GYRE_CHECKPOINT_NOTES,     /* people write or follow them: kept when the folder is replaced */
    GYRE_CHECKPOINT_TOKENIZER, /* copied unchanged when weights are converted */
} gyre_checkpoint_role;

typedef struct gyre_checkpoint_file {
    const char *name;
    gyre_checkpoint_role role;
} gyre_checkpoint_file;

/* The files that a folder written by Gyre may hold, index = 0, 1, ...; NULL past the last.  A folder that holds any other
 * file is somebody else's and is never replaced. */
const gyre_checkpoint_file *gyre_checkpoint_file_at(size_t index);
/* The one of that name; NULL = none. */
const gyre_checkpoint_file *gyre_checkpoint_file_of(const char *name);

#endif
