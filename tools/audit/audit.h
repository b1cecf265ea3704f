/* audit.h: gyre audit: the files of a model held against each other: what is said about positions, and by whom. */
#ifndef GYRE_TOOLS_AUDIT_H
#define GYRE_TOOLS_AUDIT_H
#include "tools/common/model_input.h"
#include "tools/explain/explain_terminal.h"
#include <jansson.h>
#include <limits.h>
#include <sys/stat.h>

typedef enum audit_status {
    AUDIT_OK,
    AUDIT_LEFT_OUT, /* could not be checked; the text says why */
    AUDIT_NOTE,     /* worth knowing, and no fault of the files */
    AUDIT_DOUBT,    /* two files or programs disagree, and either may be meant */
    AUDIT_WRONG,    /* a value that cannot be right */
    AUDIT_STATUSES
} audit_status;
enum { AUDIT_TEXT = 1024, AUDIT_PLACE = 512, AUDIT_VALUE = 72 };
/* Each status has its own space, so notes never displace faults. */
enum { AUDIT_ROOM = 4096, AUDIT_MAX_FINDINGS = AUDIT_STATUSES * AUDIT_ROOM };

/* One line of the page. */
typedef struct audit_finding {
    audit_status status;
    const char *check;       /* "config", "programs", "lengths", "frequencies", "tables", "weights", "tokens", "layout" */
    char text[AUDIT_TEXT];   /* what, and why it matters */
    char place[AUDIT_PLACE]; /* file, key and line; "" = none */
    char remedy[AUDIT_TEXT]; /* what to do; "" = nothing */
    int count;               /* tensors that it stands for; else 1 */
} audit_finding;

/* A JSON file of the model.  Whole numbers are reals too: some are too large for an integer. */
typedef struct audit_file {
    const char *name; /* "config.json" */
    json_t *root;     /* an object; NULL = there is none */
    char *text;
    char fault[AUDIT_TEXT]; /* why there is none; "" = nothing is wrong */
    int fault_line;
} audit_file;

typedef struct audit {
    const gyre_reading *reading; /* of the profile that is asked for; NULL = that refuses the file */
    gyre_error refused;          /* with which words */
    char path[PATH_MAX];         /* MODEL as it was found, without '/' at its end */
    char described[PATH_MAX];    /* the config.json or GGUF */
    char folder[PATH_MAX];       /* path with '/' at its end; "" = a lone file or a GGUF */
    int is_gguf;
    const char *model_type;  /* "" if there is none */
    gyre_profile profile;    /* never DEFAULT */
    int64_t length;          /* --length; 0 = none */
    audit_file config;       /* root NULL of a GGUF */
    int runs;                /* 1: audit_weights has found nothing that keeps the model from running */
    int64_t vocab;           /* rows of the embedding, once audit_weights has found it; 0 = not known */
    audit_finding *findings; /* [AUDIT_MAX_FINDINGS] */
    int count;
    int kept[AUDIT_STATUSES];    /* of the count */
    int dropped[AUDIT_STATUSES]; /* findings past the room: not shown, but counted */
    audit_finding spare;         /* what audit_add returns of these */
} audit;

/* Adds a finding and returns it, so that place and remedy may be set; never NULL. */
audit_finding *audit_add(audit *a, audit_status status, const char *check, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void audit_set_place(audit_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
void audit_set_remedy(audit_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* audit_add of an error's words, "what: why (where)": `where` becomes the place if it is a file of the model. */
audit_finding *audit_add_error(audit *a, audit_status status, const char *check, const char *text);
/* out = ENOMEM, with its words. */
gyre_status audit_no_memory(const audit *a, gyre_error *err);
/* out = 1 if the machine failed, not the file: the command ends with the error instead of a finding. */
int audit_is_failure(gyre_status status);
/* out = 1 if a key is twice in the config: Gyre alone refuses such a text, and the reader of Python takes it. */
int audit_has_key_twice(const audit *a);
/* After findings were taken away or got another status. */
void audit_recount(audit *a);
/* out = 1 if one more finding of that status would not be shown, so its text is not needed. */
int audit_is_full(const audit *a, audit_status status);
/* out = findings of that status, also those that are not shown. */
int audit_count(const audit *a, audit_status status);
/* *there = 1 with its *info, or 0: there is no such file.  Errors: EIO, if neither is known. */
gyre_status audit_find_path(const char *path, struct stat *info, int *there, gyre_error *err);
/* The same of a file in the model's folder. */
gyre_status audit_find_file(const audit *a, const char *name, int *there, gyre_error *err);
/* out = the object that describes the decoder: text_config or such, or the whole config.json; NULL of a GGUF. */
const json_t *audit_decoder(const audit *a);
/* out = tokens that the model is said to serve: max_length of its first group, or what its scaling reaches, whichever is
 * more; of a config that is refused, max_position_embeddings; 0 = not said. */
int64_t audit_context(const audit *a);

/* audit_group.c: makes one finding of those from `from` on that differ in the layer or expert of their tensor alone.
 * Errors: ENOMEM. */
gyre_status audit_group(audit *a, int from, gyre_error *err);

/* -- audit_files.c -- */
/* *out = the object in a file, or its fault.  name: for messages; kept.  Errors: EIO, ENOMEM. */
gyre_status audit_file_open(audit_file *out, const char *path, const char *name, gyre_error *err);
/* audit_file_open of a file in the model's folder; root NULL if there is no such file, or with a finding of `check`. */
gyre_status audit_file_find(audit *a, audit_file *out, const char *name, const char *check, gyre_error *err);
void audit_file_close(audit_file *file);
/* out = the line of a key such as "rope_scaling.factor", from 1; 0 = not found. */
int64_t audit_file_line(const audit_file *file, const char *key);
/* The same from *at on, of keys in the order of the file: all together cost one walk of it.  key: without those around it.
 * *at = after the key, *line = that of *at; *at = NULL if it is not found.  Begins with *at = file->text, *line = 1. */
int64_t audit_file_next_line(const char **at, int64_t *line, const char *key);
/* Writes a value as JSON, cut after 60 bytes. */
void audit_value_text(const json_t *value, char out[AUDIT_VALUE]);

/* -- the checks: each adds at least one finding.  Errors: ENOMEM and EIO; what is wrong with a file is a finding -- */
gyre_status audit_config(audit *a, gyre_error *err); /* audit_config.c: errors and warnings of the reader */
void audit_keys(audit *a);                           /* audit_keys.c: misspelt keys; may add nothing */
/* out = the key of positions that one such as "rope_scaling.beta_fst" is a misspelling of; NULL = none. */
const char *audit_key_meant(const char *whole);
/* out = 1 for a key within rope_scaling or rope_parameters. */
int audit_key_is_in_dict(const char *whole);
gyre_status audit_programs(audit *a, gyre_error *err); /* audit_programs.c: transformers, vLLM, llama.cpp */
gyre_status audit_lengths(audit *a, gyre_error *err);  /* audit_lengths.c: what scalings reach, and what is stated */
gyre_status audit_limits(audit *a, gyre_error *err);   /* audit_limits.c: limits of the tokenizer and of generation */
gyre_status audit_weights(audit *a, gyre_error *err);  /* audit_weights.c: stored frequencies and tables, shapes */
gyre_status audit_tokens(audit *a, gyre_error *err);   /* audit_tokens.c: the tokenizer's ids that the embedding lacks */
gyre_status audit_ids(audit *a, gyre_error *err);      /* audit_ids.c: the same of config and generation_config */
/* audit_again.c: faults of a refused config past the first; part of audit_config.  Errors: ENOMEM. */
gyre_status audit_read_again(audit *a, gyre_error *err);
/* audit_shards.c, of a folder with an index and no model.safetensors: *missing = 1, with a finding, if files that the index
 * names are not there. */
gyre_status audit_shards(audit *a, int *missing, gyre_error *err);
/* audit_layout.c: reads the texts of `options` under both layouts of pairs; left out without a text. */
gyre_status audit_layout(audit *a, const model_options *options, int argc, char **argv, const gyre_exec *exec,
                         gyre_error *err);

/* audit_view.c */
void audit_view(const explain_terminal *page, const audit *a);
int audit_write_json(const audit *a, FILE *file);

#endif
