/* replace_folder.h: replaces a checkpoint's folder atomically.  After a kill or on a full disk the folder is the old one
 * or the new one, complete.
 *
 *    begin     FOLDER.gyre-PID-N.tmp is made, and locked while its writer lives (util/temporary.h)
 *    write     files are written into it
 *    commit    synced, then exchanged with FOLDER (renamed if there is none); the old folder, which has the name of the
 *              temporary by then, is removed, or left to gyre_folder_recover */
#ifndef GYRE_FILES_REPLACE_FOLDER_H
#define GYRE_FILES_REPLACE_FOLDER_H
#include "gyre/gyre.h"
#include "util/temporary.h"

typedef struct gyre_folder_replacement {
    char final[PATH_MAX], temporary[GYRE_TEMPORARY_PATH_BYTES];
    int lock; /* a descriptor of the temporary folder; -1 = none */
    int own;  /* begun by gyre_folder_begin_own */
} gyre_folder_replacement;

/* Cleans up what a killed process left beside `final`: removes half-written folders and restores a folder that was moved
 * aside.  A folder of such a name that is locked, or holds a file that no checkpoint has, is left alone.  Call it before
 * reading a folder that will be written again.  gyre_folder_begin calls it. */
gyre_status gyre_folder_recover(const char *final, gyre_error *err);
/* Makes the temporary folder, and the parents of `final`.  EINVAL if `final` is not a folder, or holds files that do not
 * belong to a checkpoint (util/checkpoint_files.h), so that a wrong name loses no data.  Only one replacement of one
 * `final` at a time. */
gyre_status gyre_folder_begin(gyre_folder_replacement *folder, const char *final, gyre_error *err);
/* The same for a folder that holds an earlier state of what is written, if it is there.  The commit keeps its tokenizer, and
 * what no checkpoint has, such as figures of it, so that a file somebody put there does not end a long run. */
gyre_status gyre_folder_begin_own(gyre_folder_replacement *folder, const char *final, gyre_error *err);
/* out = the path of a file in the temporary folder. */
gyre_status gyre_folder_path(const gyre_folder_replacement *folder, const char *name, char out[PATH_MAX], gyre_error *err);
/* Writes a text file into the temporary folder and syncs it. */
gyre_status gyre_folder_write(const gyre_folder_replacement *folder, const char *name, const char *text, gyre_error *err);
/* Copies the file at `from` into the temporary folder as `name` and syncs it. */
gyre_status gyre_folder_copy(const gyre_folder_replacement *folder, const char *name, const char *from, gyre_error *err);
/* Syncs everything and puts the folder in place.  README.md and train.log of the old folder are kept if the new one has
 * none, and more of a folder of one's own.  After an error the caller discards the replacement, after GYRE_OK there is
 * nothing left to discard. */
gyre_status gyre_folder_commit(gyre_folder_replacement *folder, gyre_error *err);
/* Removes the temporary folder and its files. */
void gyre_folder_discard(gyre_folder_replacement *folder);

#endif
