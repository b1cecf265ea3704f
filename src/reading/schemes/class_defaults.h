/* class_defaults.h: sizes of models whose positions do not turn, under all the names their classes give them, and who runs
 * them. */
#ifndef GYRE_READING_CLASS_DEFAULTS_H
#define GYRE_READING_CLASS_DEFAULTS_H
#include "reading/family.h"

enum {
    GYRE_IN_VLLM = 1,         /* vLLM has a class of its own for it */
    GYRE_IN_LLAMA_CPP = 2,    /* llama.cpp's converter takes it */
    GYRE_REMOVED_IN_HF_5 = 4, /* transformers had it up to some 4.x */
    GYRE_ENCODER_DECODER = 8, /* an encoder and a decoder */
    GYRE_NOT_IN_HF = 16       /* the model brings its own code */
};
/* The row, or the place in the sinusoid, that the first token has. */
typedef enum gyre_first_row_rule {
    GYRE_ROW_0,
    GYRE_ROW_2,            /* the table has two rows more than positions */
    GYRE_ROW_AFTER_PADDING /* pad_token_id + 1, and padding has the row pad_token_id */
} gyre_first_row_rule;

typedef struct gyre_class_defaults {
    const char *model_type;
    int64_t model_dim, heads; /* the class's; 0 = the file must say */
    unsigned traits;
    gyre_first_row_rule first_row;
    gyre_sinusoid sinusoid; /* of families that have one */
} gyre_class_defaults;

/* One model being read, and the group under way. */
typedef struct gyre_config_reader {
    const gyre_family *family;
    const gyre_class_defaults *defaults;
    const gyre_scope *root;
    gyre_build *build;
    gyre_profile profile;
    gyre_layer_group *group;
} gyre_config_reader;

/* Names of one thing, the first that a file has counts; NULL at their end. */
extern const char *const gyre_model_dim_keys[], *const gyre_heads_keys[], *const gyre_max_positions_keys[];

/* Begins to read: fails, or warns, where the profile's program does not run such a model. */
gyre_config_reader gyre_reader_begin(const gyre_family *family, const gyre_scope *root);
/* Begins a group of a kind. */
void gyre_reader_add_group(gyre_config_reader *r, const char *name, gyre_kind kind);
/* out = a size of at least 1 under one of the names, else that of the class; 0 and a failure where there is neither.  Noted
 * as `field`, NULL = not at all. */
int64_t gyre_reader_read_size(const gyre_config_reader *r, const char *field, const char *const *names, int64_t of_class);
/* out = the number of heads, set too. */
int64_t gyre_reader_read_heads(const gyre_config_reader *r, const char *const *names_of_heads);
/* Sets the largest distance, or the number of positions.  A file cannot ask for a map of distances that takes seconds to
 * make. */
enum { GYRE_MAX_TABLE_DISTANCE = 1 << 22 };
void gyre_reader_set_max_distance(const gyre_config_reader *r, const char *key, int64_t distance);
void gyre_reader_set_max_positions(const gyre_config_reader *r, const char *key, int64_t positions);
/* Sets and notes the heads' number and size: width / heads. */
void gyre_reader_read_head_sizes(const gyre_config_reader *r, const char *const *names_of_heads);
/* Sets and notes the size of a head under `key`, where the class has one of its own. */
void gyre_reader_read_head_dim(const gyre_config_reader *r, const char *key, int64_t of_class);
/* Notes a number under `key` of the file, or as the class's default. */
void gyre_reader_note_number(const gyre_config_reader *r, const char *field, const char *key, double value);
/* The same for true and false. */
void gyre_reader_note_flag(const gyre_config_reader *r, const char *field, const char *key, int value);
/* Sets and notes what scores are multiplied by. */
void gyre_reader_set_scale(const gyre_config_reader *r, const char *key, gyre_origin origin, const char *why, double scale);
/* out = the row of the first token, noted as "offset"; `rows` is how many positions the file speaks of. */
int64_t gyre_reader_first_row(const gyre_config_reader *r, gyre_first_row_rule rule);
/* Makes the group a learned table of as many positions as one of the names says. */
void gyre_reader_read_learned_table(const gyre_config_reader *r, const char *const *names_of_positions,
                                    gyre_first_row_rule rule);
/* Notes on a group that speaks of scores that a learned table is added at the input too, which one gyre_config cannot
 * say. */
void gyre_reader_note_learned_table(const gyre_config_reader *r, gyre_first_row_rule rule);

#endif
