/* replace_folder.c: writes a checkpoint into a folder beside its target, and puts it in place by one rename. */
#define _DEFAULT_SOURCE /* syscall */
#include "files/replace_folder.h"

#include "files/file_read.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include "util/file_lock.h"
#include "util/file_write.h"
#include "util/path.h"
#include "util/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_dot_entry(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* -- syncing -- */
static gyre_status sync_path(const char *path, gyre_error *err) {
    const int code = gyre_sync_path(path);
    return code ? gyre_fail_errno(err, path, code) : GYRE_OK;
}

static gyre_status sync_parent(const char *path, gyre_error *err) {
    const int code = gyre_sync_parent(path);
    return code ? gyre_fail_errno(err, path, code) : GYRE_OK;
}

/* Calls visit for every entry except . and .., until it fails. */
static gyre_status for_each_entry(const char *folder,
                                  gyre_status (*visit)(const char *folder, const char *name, void *arg, gyre_error *err),
                                  void *arg, gyre_error *err) {
    gyre_status status = GYRE_OK;
    DIR *entries = opendir(folder);
    if (!entries) return gyre_fail_errno(err, folder, errno);
    while (!status) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        if (!entry) {
            if (errno != 0) status = gyre_fail_errno(err, folder, errno);
            break;
        }
        if (!is_dot_entry(entry->d_name)) status = visit(folder, entry->d_name, arg, err);
    }
    closedir(entries);
    return status;
}

static gyre_status sync_entry(const char *folder, const char *name, void *arg, gyre_error *err) {
    char path[PATH_MAX];
    (void)arg;
    const gyre_status status = gyre_file_path(folder, name, path, err);
    return !status ? sync_path(path, err) : status;
}

static gyre_status sync_folder(const char *folder, gyre_error *err) {
    const gyre_status status = for_each_entry(folder, sync_entry, NULL, err);
    return !status ? sync_path(folder, err) : status;
}

/* -- removing -- */
/* Removes files only: a checkpoint has no folders in it. */
static gyre_status unlink_entry(const char *folder, const char *name, void *arg, gyre_error *err) {
    char path[PATH_MAX];
    (void)arg;
    if (!gyre_file_path(folder, name, path, err)) unlink(path);
    return GYRE_OK;
}

/* A call that fails once may work the next time.  What stays nevertheless is for gyre_folder_recover. */
static void remove_folder(const char *folder) {
    enum { TRIES = 2 };
    struct stat info;
    for (int i = 0; i < TRIES; i++) {
        const int found = lstat(folder, &info) == 0;
        if (found ? !S_ISDIR(info.st_mode) : errno == ENOENT) return;
        if (found) (void)for_each_entry(folder, unlink_entry, NULL, NULL);
        if (found && rmdir(folder) == 0) return;
    }
}

/* Only files of a checkpoint, what a killed write of one left (util/atomic_file.h), and files that have another name too, as
 * those that a save keeps have in the new folder. */
static gyre_status check_own_entry(const char *folder, const char *name, void *arg, gyre_error *err) {
    const gyre_checkpoint_file *file;
    char path[PATH_MAX];
    struct stat info;
    int aside;
    (void)arg;
    for (size_t i = 0; (file = gyre_checkpoint_file_at(i)) != NULL; i++)
        if (strcmp(file->name, name) == 0 || gyre_temporary_pid(name, file->name, &aside)) return GYRE_OK;
    if (!gyre_file_path(folder, name, path, NULL) && lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink > 1)
        return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "folder: holds %.100s (%s)", name, folder);
}

/* Handles what a killed process left.  A half-written folder is removed, unless a file would be lost that no checkpoint
 * has.  A folder that was moved aside is moved back if its place is empty. */
static gyre_status recover_entry(const char *path, int aside, void *arg, gyre_error *err) {
    const char *final = arg;
    struct stat info;
    if (aside && lstat(final, &info) != 0 && errno == ENOENT)
        return rename(path, final) == 0 ? GYRE_OK : gyre_fail_errno(err, path, errno);
    if (!for_each_entry(path, check_own_entry, NULL, NULL)) remove_folder(path);
    return GYRE_OK;
}

/* -- beginning -- */
/* out = the folder's own name, since that of a link or "." cannot be exchanged. */
static gyre_status normalize(const char *final, char out[PATH_MAX], gyre_error *err) {
    if (!*final) return gyre_fail(err, GYRE_EINVAL, "folder: an empty name");
    const int code = gyre_folder_end(final, out);
    if (code == ENAMETOOLONG || (!code && strlen(out) >= PATH_MAX - 48))
        return gyre_fail(err, GYRE_EIO, "folder: path too long (%.200s...)", final);
    if (code) return gyre_fail_errno(err, final, code);
    if (strcmp(out, "/") == 0) return gyre_fail(err, GYRE_EINVAL, "folder: / cannot be replaced");
    return GYRE_OK;
}

typedef struct folder_entries {
    int own;           /* files that no checkpoint has are taken too */
    int config, other; /* 1: it holds the config of a model, something else */
} folder_entries;

static gyre_status check_entry(const char *folder, const char *name, void *arg, gyre_error *err) {
    folder_entries *found = arg;
    const gyre_checkpoint_file *file = gyre_checkpoint_file_of(name);
    const int config = strcmp(name, GYRE_CONFIG_FILE) == 0;
    found->config |= config;
    found->other |= !config;
    if (file || found->own) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "folder: holds other files, such as %.100s, and is left alone (%s)", name, folder);
}

/* GYRE_OK and *exists = 0, or *exists = 1 if `final` is a folder that may be replaced. */
static gyre_status check_replaceable(const char *final, int own, int *exists, gyre_error *err) {
    struct stat info;
    *exists = lstat(final, &info) == 0;
    if (!*exists) return errno == ENOENT ? GYRE_OK : gyre_fail_errno(err, final, errno);
    if (!S_ISDIR(info.st_mode)) return gyre_fail(err, GYRE_EINVAL, "folder: a file has that name (%s)", final);
    folder_entries found = {.own = own};
    const gyre_status status = for_each_entry(final, check_entry, &found, err);
    if (!status && found.other && !found.config) /* a tokenizer or weights alone */
        return gyre_fail(err, GYRE_EINVAL, "folder: holds files, but no model, and is left alone (%s)", final);
    return status;
}

gyre_status gyre_folder_recover(const char *final, gyre_error *err) {
    char name[PATH_MAX], parent[PATH_MAX];
    struct stat info;
    gyre_status status = normalize(final, name, err);
    if (status) return status;
    (void)gyre_path_folder(name, parent, sizeof parent);
    if (stat(parent, &info) != 0 && errno == ENOENT) return GYRE_OK;
    return gyre_temporary_clean(name, 1, recover_entry, name, err);
}

static gyre_status begin(gyre_folder_replacement *folder, const char *final, int own, gyre_error *err) {
    gyre_folder_replacement f = {.own = own};
    struct stat old;
    int exists;
    volatile int made = 0;
    gyre_status status = normalize(final, f.final, err);
    const int code = !status ? gyre_make_parents(f.final) : 0;
    if (code) status = gyre_fail_errno(err, f.final, code);
    if (!status) status = gyre_folder_recover(f.final, err);
    if (!status) status = check_replaceable(f.final, own, &exists, err);
    if (status) return status;
    f.lock = gyre_temporary_make(f.temporary, f.final, 1, 0777, &made);
    if (f.lock < 0) return gyre_fail_errno(err, f.temporary, errno);
    if (exists && stat(f.final, &old) == 0) (void)fchmod(f.lock, old.st_mode & 07777); /* a private folder stays private */
    *folder = f;
    return GYRE_OK;
}

gyre_status gyre_folder_begin(gyre_folder_replacement *folder, const char *final, gyre_error *err) {
    return begin(folder, final, 0, err);
}

gyre_status gyre_folder_begin_own(gyre_folder_replacement *folder, const char *final, gyre_error *err) {
    return begin(folder, final, 1, err);
}

gyre_status gyre_folder_path(const gyre_folder_replacement *folder, const char *name, char out[PATH_MAX], gyre_error *err) {
    return gyre_file_path(folder->temporary, name, out, err);
}

/* -- writing files -- */
static gyre_status write_file(const char *path, const char *bytes, size_t size, gyre_error *err) {
    const int code = gyre_file_write(path, bytes, size);
    return code ? gyre_fail_errno(err, path, code) : GYRE_OK;
}

static gyre_status copy_file(const char *from, const char *to, gyre_error *err) {
    char *bytes;
    size_t size;
    gyre_status status = gyre_document_read(from, &bytes, &size, err);
    if (status) return status;
    status = write_file(to, bytes, size, err);
    free(bytes);
    return status;
}

gyre_status gyre_folder_write(const gyre_folder_replacement *folder, const char *name, const char *text, gyre_error *err) {
    char path[PATH_MAX];
    const gyre_status status = gyre_folder_path(folder, name, path, err);
    return !status ? write_file(path, text, strlen(text), err) : status;
}

gyre_status gyre_folder_copy(const gyre_folder_replacement *folder, const char *name, const char *from, gyre_error *err) {
    char path[PATH_MAX];
    const gyre_status status = gyre_folder_path(folder, name, path, err);
    return !status ? copy_file(from, path, err) : status;
}

/* -- commit -- */
static void unlock(gyre_folder_replacement *folder) {
    if (folder->lock >= 0) close(folder->lock);
    folder->lock = -1;
}

/* out = 1 for what stays in place when the rest is replaced: notes, in a folder of one's own the tokenizer, and what no
 * checkpoint has.  In another folder that came in the moment before. */
static int is_kept(const gyre_folder_replacement *folder, const char *name) {
    const gyre_checkpoint_file *file = gyre_checkpoint_file_of(name);
    return !file || file->role == GYRE_CHECKPOINT_NOTES || (folder->own && file->role == GYRE_CHECKPOINT_TOKENIZER);
}

/* Makes a hard link, so that a log that is still being written continues in the new folder.  Copies where links are not
 * supported. */
static gyre_status keep_before(const char *old, const char *name, void *arg, gyre_error *err) {
    const gyre_folder_replacement *folder = arg;
    char from[PATH_MAX], to[PATH_MAX];
    struct stat info;
    gyre_status status = gyre_file_path(old, name, from, err);
    if (!status) status = gyre_file_path(folder->temporary, name, to, err);
    if (status || !is_kept(folder, name) || lstat(from, &info) != 0 || !S_ISREG(info.st_mode)) return status;
    if (link(from, to) == 0 || errno == EEXIST || errno == ENOENT) return GYRE_OK;
    return copy_file(from, to, err);
}

/* What came since, and what cannot be linked, such as a folder of figures: moved, once the old folder is out of place. */
static gyre_status keep_after(const char *old, const char *name, void *arg, gyre_error *err) {
    const gyre_folder_replacement *folder = arg;
    char from[PATH_MAX], to[PATH_MAX];
    struct stat info;
    (void)err;
    if (is_kept(folder, name) && !gyre_file_path(old, name, from, NULL) && !gyre_file_path(folder->final, name, to, NULL) &&
        lstat(to, &info) != 0 && errno == ENOENT)
        (void)!rename(from, to); /* if this fails, a folder stays where it is, and so does the old folder around it */
    return GYRE_OK;
}

static void remove_old(gyre_folder_replacement *folder, const char *old) {
    (void)for_each_entry(old, keep_after, folder, NULL);
    remove_folder(old);
}

/* The value of RENAME_EXCHANGE, which older C libraries do not define.  out = 1, or 0 if the system cannot exchange. */
static int exchange(const char *a, const char *b) {
#ifdef SYS_renameat2
    enum { EXCHANGE = 2 };
    return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, EXCHANGE) == 0;
#else
    (void)a;
    (void)b;
    return 0;
#endif
}

/* Between the two renames nothing is in place.  gyre_folder_recover repairs a kill at that moment. */
static gyre_status replace_by_two_renames(gyre_folder_replacement *folder, gyre_error *err) {
    char aside[GYRE_TEMPORARY_PATH_BYTES];
    gyre_status status = GYRE_OK;
    gyre_temporary_name_aside(aside, folder->temporary);
    const int lock = open(folder->final, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock >= 0) (void)gyre_lock_file(lock);
    if (rename(folder->final, aside) != 0) {
        status = gyre_fail_errno(err, folder->final, errno);
    } else if (rename(folder->temporary, folder->final) != 0) {
        status = gyre_fail_errno(err, folder->final, errno);
        (void)!rename(aside, folder->final); /* if this fails too, the next gyre_folder_recover does it */
    } else {
        remove_old(folder, aside);
    }
    if (lock >= 0) close(lock);
    return status;
}

static gyre_status replace(gyre_folder_replacement *folder, gyre_error *err) {
    gyre_status status = for_each_entry(folder->final, keep_before, folder, err);
    if (!status) status = sync_folder(folder->temporary, err);
    if (status) return status;
    if (!exchange(folder->temporary, folder->final)) return replace_by_two_renames(folder, err);
    status = sync_parent(folder->final, err);
    remove_old(folder, folder->temporary); /* it holds the old files now */
    return status;
}

/* Looking and renaming are two steps.  What came between them is whole, and stays. */
static gyre_status fail_taken(const gyre_folder_replacement *folder, gyre_error *err) {
    return gyre_fail(err, GYRE_EIO,
                     "folder: another run wrote it meanwhile; its files are kept and those of this run are discarded; run "
                     "again, or name another (%s)",
                     folder->final);
}

gyre_status gyre_folder_commit(gyre_folder_replacement *folder, gyre_error *err) {
    int exists;
    gyre_status status = check_replaceable(folder->final, folder->own, &exists, err);
    if (status) return status;
    if (exists) {
        status = replace(folder, err);
    } else {
        status = sync_folder(folder->temporary, err);
        if (!status && rename(folder->temporary, folder->final) != 0)
            status =
                errno == ENOTEMPTY || errno == EEXIST ? fail_taken(folder, err) : gyre_fail_errno(err, folder->final, errno);
    }
    if (!status) status = sync_parent(folder->final, err);
    if (!status) unlock(folder);
    return status;
}

/* The name is removed before the lock, so that no process finds an unlocked temporary of a living writer. */
void gyre_folder_discard(gyre_folder_replacement *folder) {
    remove_folder(folder->temporary);
    unlock(folder);
}
