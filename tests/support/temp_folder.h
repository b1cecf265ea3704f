/* temp_folder.h: a folder of its own for a test program. */
#ifndef GYRE_TESTS_TEMP_FOLDER_H
#define GYRE_TESTS_TEMP_FOLDER_H
#include "support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/gyre-test-XXXXXX";

/* out = the path of `name` in the folder, in one of sixteen static buffers. */
static inline const char *in_folder(const char *name) {
    static char paths[16][512];
    static int next;
    next = (next + 1) % 16;
    snprintf(paths[next], sizeof paths[next], "%s/%s", folder, name);
    return paths[next];
}

/* Removes a file, a link, or a folder with everything in it. */
static inline void remove_tree(const char *path) {
    struct stat info;
    char child[1024];
    DIR *dir = lstat(path, &info) == 0 && S_ISDIR(info.st_mode) ? opendir(path) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (snprintf(child, sizeof child, "%s/%s", path, entry->d_name) < (int)sizeof child) remove_tree(child);
    }
    if (dir) closedir(dir);
    remove(path);
}

/* Group setup and teardown. */
static inline int make_empty_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}
static inline int remove_folder(void **state) {
    (void)state;
    remove_tree(folder);
    return access(folder, F_OK) == 0 ? -1 : 0;
}
/* Setup of a test that needs the folder empty. */
static inline int clear_folder(void **state) {
    return remove_folder(state) || mkdir(folder, 0700);
}

/* A new file each time: file systems flush a file that is truncated and written again, which is slow. */
static inline void write_path(const char *path, const void *bytes, size_t n) {
    (void)unlink(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}
static inline void write_file(const char *name, const void *bytes, size_t n) {
    write_path(in_folder(name), bytes, n);
}

/* Entries of a folder except . and .. */
static inline int count_entries(const char *path) {
    int count = -2;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

#endif
