/* cli_guard_files.h: what a file is, for cli_guard.c: a model's, a result of Gyre, or another.
 *
 * A file that exists but cannot be examined ends the program, because the run might write over what it reads. */
#ifndef GYRE_TOOLS_CLI_GUARD_FILES_H
#define GYRE_TOOLS_CLI_GUARD_FILES_H
#include "util/path.h"

#include <sys/stat.h>

/* out = 1, and *is, if there is such a file or folder; 0 if there is none. */
int guard_look(const char *path, struct stat *is);
/* out = 1 if the path leads to this file or folder. */
int guard_is_same(const struct stat *a, const char *path);
int guard_is_folder(const char *path);
/* out = 1 for a folder with a config.json. */
int guard_is_model_folder(const char *folder);
/* out = 1 if the folder holds an entry of this name. */
int guard_has_file(const char *folder, const char *name);

/* folder = the folder of a file: "." for a plain name. */
void guard_folder_of(const char *path, char folder[PATH_MAX]);
/* real = the path without links; out = 0 if there is nothing at it. */
int guard_real(const char *path, char real[PATH_MAX]);
/* out = 1 if `path` is below the folder. */
int guard_is_below(const char *path, const char *folder);

/* out = 1 if programs read a file of this name in a model's folder. */
int guard_is_model_name(const char *name);
/* out = 1 for a GGUF, a safetensors file or the config of a model, recognised by its content. */
int guard_holds_model(const char *path);
/* out = 1 for a name of a model's file, but config.json, beside a config.json: this one, or the one behind its links. */
int guard_is_file_of_model(const char *path);
/* The same in any folder: programs that need no config.json have weights and vocabularies of such names. */
int guard_has_name_of_model(const char *path);
/* out = 1 for what guard_holds_model finds, or a name of a model's file. */
int guard_is_model_file(const char *path);
int guard_is_gguf(const char *path);
/* out = 1 for what a command that writes models may replace: a config, or, gguf: 1, the GGUF of a whole model. */
int guard_is_whole_model(const char *path, int gguf);
/* out = 1 for a name that a result may have beside a model: a list of results, because the files of models are not all
 * known.  writes_model: 1 for a config or a GGUF. */
int guard_is_result_name(const char *name, int writes_model);
/* The same for a file that is there: JSON is looked into. */
int guard_is_result(const char *path, int writes_model);

/* Calls `judge` with the path of each entry of the folder until it says 1.  out = 1 if it did; -1 if the folder may not be
 * listed. */
int guard_any_entry(const char *folder, int (*judge)(const char *path, void *arg), void *arg);
/* out = 1 if a name anywhere below the folder is the file's: its own, a hard link's, or that of a link to it. */
int guard_is_in_tree(const struct stat *file, const char *folder);

#endif
