/* temporary_folder.c: folders that are locked while they are in use, so that the next run knows which were left behind. */
#define _XOPEN_SOURCE 700 // NOLINT(bugprone-reserved-identifier): nftw; POSIX defines this name
#include "tools/cli/temporary_folder.h"
#include "tools/cli/cli_error.h"
#include "util/temporary.h"
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Of TMPDIR/NAME a temporary is made.  A page outlives its run, because a browser reads it. */
static const char *const names[] = {"gyre", "gyre-explore"};
enum { NAMES = sizeof names / sizeof *names, PAGE_SECONDS = 60, DESCRIPTORS = 16 };

static int target_of(char out[PATH_MAX], const char *name) {
    const char *set = getenv("TMPDIR");
    return snprintf(out, PATH_MAX, "%s/%s", set && *set ? set : "/tmp", name) < PATH_MAX;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    (void)remove(path);
    return 0;
}

static void remove_tree(const char *path) {
    (void)nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

/* Everybody may write to /tmp: what another user made there stays. */
static gyre_status remove_left(const char *path, int aside, void *arg, gyre_error *err) {
    const int *is_page = arg;
    struct stat info;
    (void)err;
    if (aside || lstat(path, &info) != 0 || info.st_uid != geteuid()) return GYRE_OK;
    if (!*is_page || time(NULL) - info.st_mtime >= PAGE_SECONDS) remove_tree(path);
    return GYRE_OK;
}

void temporary_folder_remove(temporary_folder *folder) {
    if (folder->path[0]) remove_tree(folder->path);
    if (folder->lock >= 0) close(folder->lock);
    *folder = (temporary_folder){.lock = -1};
}

gyre_status temporary_folder_create(temporary_folder *folder, const char *command, gyre_error *err) {
    char target[PATH_MAX], path[GYRE_TEMPORARY_PATH_BYTES];
    int is_page[NAMES] = {0, 1};
    volatile int made = 0;
    *folder = (temporary_folder){.lock = -1};
    for (size_t i = 0; i < NAMES; i++)
        if (target_of(target, names[i])) (void)gyre_temporary_clean(target, 1, remove_left, &is_page[i], NULL);
    if (!target_of(target, names[strcmp(command, "explore") == 0]) || strlen(target) + 32 > sizeof folder->path)
        return gyre_fail(err, GYRE_EIO, "TMPDIR: the path is too long (%s)", command);
    folder->lock = gyre_temporary_make(path, target, 1, 0700, &made);
    if (folder->lock < 0) {
        const int code = errno;
        (void)gyre_path_folder(target, path, sizeof path);
        return gyre_fail(err, GYRE_EIO, "%s: no temporary folder can be made there: %s (%s)", path, strerror(code), command);
    }
    memcpy(folder->path, path, strlen(path) + 1);
    return GYRE_OK;
}
