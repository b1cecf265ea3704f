/* class_defaults.h: sizes of models that do not rotate, under all the names that their classes use, and which programs
 * run them. */
#ifndef GYRE_READING_CLASS_DEFAULTS_H
#define GYRE_READING_CLASS_DEFAULTS_H
#include "reading/family.h"

enum {
    GYRE_IN_VLLM = 1,         /* vLLM has its own class for it */
    GYRE_IN_LLAMA_CPP = 2,    /* llama.cpp's converter accepts it */
    GYRE_REMOVED_IN_HF_5 = 4, /* removed from transformers during version 4 */
    GYRE_ENCODER_DECODER = 8, /* an encoder and a decoder */
    GYRE_NOT_IN_HF = 16       /* the model brings its own code */
};
/* The table row, or sinusoid position, of the first token. */
typedef enum gyre_first_row_rule {
    GYRE_ROW_0,
    GYRE_ROW_2,            /* the table has two rows more than positions */
    GYRE_ROW_AFTER_PADDING /* pad_token_id + 1; padding has the row pad_token_id */
} gyre_first_row_rule;

typedef struct gyre_class_defaults {
    const char *model_type;
    int64_t model_dim, heads; /* defaults of the class; 0 = required in the file */
    unsigned traits;
    gyre_first_row_rule first_row;
    gyre_sinusoid sinusoid; /* for families that have one */
} gyre_class_defaults;

/* A model being read, and the group in progress. */
typedef struct gyre_config_reader {
    const gyre_family *family;
    const gyre_class_defaults *defaults;
    const gyre_scope *root;
    gyre_build *build;
    gyre_profile profile;
    gyre_layer_group *group;
} gyre_config_reader;

/* Alternative names of a size, ended by NULL: the first one with a value counts. */
extern const char *const gyre_model_dim_keys[], *const gyre_heads_keys[], *const gyre_max_positions_keys[];

/* Begins reading.  Fails or warns if the profile's program does not run such a model. */
gyre_config_reader gyre_reader_begin(const gyre_family *family, const gyre_scope *root);
/* Begins a group of the scheme of this name. */
void gyre_reader_add_group(gyre_config_reader *r, const char *name, const char *kind);
/* out = a size of at least 1 under one of the names, else the class default; 0 and a failure if there is neither.
 * Recorded as `field` unless that is NULL. */
int64_t gyre_reader_read_size(const gyre_config_reader *r, const char *field, const char *const *names, int64_t of_class);
/* out = the number of heads, which is also set in the config. */
int64_t gyre_reader_read_heads(const gyre_config_reader *r, const char *const *names_of_heads);
/* Sets the largest distance, or the number of positions.  The limit keeps a file from asking for a map of distances that
 * takes seconds to build. */
enum { GYRE_MAX_TABLE_DISTANCE = 1 << 22 };
void gyre_reader_set_max_distance(const gyre_config_reader *r, const char *key, int64_t distance);
void gyre_reader_set_max_positions(const gyre_config_reader *r, const char *key, int64_t positions);
/* Sets and records number and size of heads: model_dim / heads. */
void gyre_reader_read_head_sizes(const gyre_config_reader *r, const char *const *names_of_heads);
/* Sets and records the size of a head from `key`, for classes that have such a key. */
void gyre_reader_read_head_dim(const gyre_config_reader *r, const char *key, int64_t of_class);
/* Records a number from `key` of the file, or as the class default. */
void gyre_reader_note_number(const gyre_config_reader *r, const char *field, const char *key, double value);
/* gyre_reader_note_number for true and false. */
void gyre_reader_note_flag(const gyre_config_reader *r, const char *field, const char *key, int value);
/* Sets and records the scale of scores. */
void gyre_reader_set_scale(const gyre_config_reader *r, const char *key, gyre_origin origin, const char *why, double scale);
/* out = the row of the first token, recorded as "offset".  rows: how many positions the file states. */
int64_t gyre_reader_first_row(const gyre_config_reader *r, gyre_first_row_rule rule);
/* Makes the group a learned table, with the number of positions that one of the names gives. */
void gyre_reader_read_learned_table(const gyre_config_reader *r, const char *const *names_of_positions,
                                    gyre_first_row_rule rule);
/* Records, on a group with positions on the scores, that a learned table is added at the input too.  One gyre_config
 * cannot describe both. */
void gyre_reader_note_learned_table(const gyre_config_reader *r, gyre_first_row_rule rule);

#endif
