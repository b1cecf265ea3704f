/* trainer_settings.h: the settings of a trainer, and the readers of them. */
#ifndef GYRE_READING_TRAINERS_TRAINER_SETTINGS_H
#define GYRE_READING_TRAINERS_TRAINER_SETTINGS_H
#include "reading/json_scope.h"

/* A text of settings as an object, with the line of each key by its path. */
typedef struct gyre_settings {
    json_t *root, *lines;
    const char *path; /* for messages; owned by the caller */
    int is_file;      /* 1 = `path` is a file, and the settings may name others */
} gyre_settings;

enum { GYRE_SETTINGS_MAX_BYTES = 1 << 20, GYRE_SETTINGS_MAX_WORDS = 20000 };

/* Arguments --name value or --name=value: the words of a command line or a script of the shell, whose variables are replaced
 * where the text itself sets them.  Names are written with underscores.  Errors: EFORMAT, ENOMEM. */
gyre_status gyre_settings_of_arguments(gyre_settings *out, const char *text, size_t bytes, gyre_error *err);
/* out = 1 if the text has a word --name that is not a key of YAML. */
int gyre_settings_are_arguments(const char *text, size_t bytes);
/* The keywords of each call of RoPE.Config, ComplexRoPE.Config and CosSinRoPE.Config, under the name of the function around
 * it.  Errors: EFORMAT, EUNSUPPORTED, ENOMEM. */
gyre_status gyre_settings_of_python(gyre_settings *out, const char *text, size_t bytes, gyre_error *err);

/* Adds the groups that the settings describe to the build of the scope, which is that of the root. */
typedef void gyre_trainer_read(const gyre_settings *settings, const gyre_scope *root);
gyre_trainer_read gyre_read_megatron, gyre_read_torchtitan, gyre_read_nanotron, gyre_read_axolotl, gyre_read_llama_factory;

/* Reads the settings of the profile's trainer.  is_file: 1 = from the file at `path`, beside which others may lie.  Errors:
 * those of gyre_reading_parse. */
gyre_status gyre_read_settings(gyre_reading **out, const char *text, size_t bytes, const char *path, int is_file,
                               gyre_profile profile, int64_t length, gyre_error *err);

#endif
