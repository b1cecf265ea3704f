/* replace_folder.h: replacing a folder or a file in one step, so that a kill or a full disk leaves the old or the new one,
 * whole. */
#ifndef GYRE_MODEL_REPLACE_FOLDER_H
#define GYRE_MODEL_REPLACE_FOLDER_H
#include "gyre/gyre.h"
#include "util/path.h"

typedef struct gyre_folder_replacement {
    char final[PATH_MAX], temporary[PATH_MAX];
} gyre_folder_replacement;

/* Mends what a process killed while it replaced `final` left beside it.  Whoever reads `final` in order to go on writing it
 * calls this first; gyre_folder_begin does by itself. */
gyre_status gyre_folder_recover(const char *final, gyre_error *err);
/* Makes a folder under a temporary name beside `final` (parents of `final` are made).  EINVAL where `final` is no folder, or
 * holds files that are not a checkpoint's: nobody loses data by a wrong name.  One at a time for one `final`. */
gyre_status gyre_folder_begin(gyre_folder_replacement *folder, const char *final, gyre_error *err);
/* out = "temporary/name". */
gyre_status gyre_folder_path(const gyre_folder_replacement *folder, const char *name, char out[PATH_MAX], gyre_error *err);
/* Writes a small text file into it, synced. */
gyre_status gyre_folder_write(const gyre_folder_replacement *folder, const char *name, const char *text, gyre_error *err);
/* Copies the file at `from` into it, under another name or the same, synced. */
gyre_status gyre_folder_copy(const gyre_folder_replacement *folder, const char *name, const char *from, gyre_error *err);
/* Syncs, then puts it in the place of `final`: an exchange where `final` exists (the old one is removed after), else a
 * rename.  README.md and train.log of the old one are carried over where the new one has none.  After an error the caller
 * abandons it. */
gyre_status gyre_folder_commit(gyre_folder_replacement *folder, gyre_error *err);
/* Removes the temporary folder and what is in it. */
void gyre_folder_discard(gyre_folder_replacement *folder);

#endif
