#include "eval/path_list.h"
#include "util/error.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void gyre_path_list_free(gyre_path_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
}

static gyre_status append_path(gyre_path_list *list, const char *folder, const char *name, gyre_error *err) {
    if (list->count == list->capacity) {
        const size_t capacity = 2 * list->capacity + 16;
        char **grown = realloc(list->paths, capacity * sizeof *grown);
        if (!grown) return gyre_fail(err, GYRE_ENOMEM, "text: no memory for %zu paths (%s)", capacity, folder);
        list->paths = grown;
        list->capacity = capacity;
    }
    const size_t length = strlen(folder), bytes = length + strlen(name) + 2;
    char *path = malloc(bytes);
    if (!path) return gyre_fail(err, GYRE_ENOMEM, "text: no memory for a path (%s)", folder);
    snprintf(path, bytes, "%s%s%s", folder, length > 0 && folder[length - 1] == '/' ? "" : "/", name);
    list->paths[list->count++] = path;
    return GYRE_OK;
}

/* Symbolic links are skipped: one that points upwards would make the walk endless, another could count a text twice. */
static gyre_status add_entry(const char *folder, const char *name, gyre_path_list *folders, gyre_path_list *files,
                             gyre_error *err) {
    struct stat info;
    gyre_status status = append_path(files, folder, name, err);
    if (status) return status;
    char *path = files->paths[files->count - 1];
    if (lstat(path, &info) != 0) return gyre_fail(err, gyre_status_of_errno(errno), "%s: %s", path, strerror(errno));
    if (S_ISREG(info.st_mode)) return GYRE_OK;
    files->count--;
    if (S_ISDIR(info.st_mode)) status = append_path(folders, folder, name, err);
    free(path);
    return status;
}

static gyre_status list_folder(const char *folder, gyre_path_list *folders, gyre_path_list *files, gyre_error *err) {
    gyre_status status = GYRE_OK;
    DIR *entries = opendir(folder);
    if (!entries) return gyre_fail(err, gyre_status_of_errno(errno), "%s: %s", folder, strerror(errno));
    while (!status) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        if (!entry) {
            if (errno != 0) status = gyre_fail(err, gyre_status_of_errno(errno), "%s: %s", folder, strerror(errno));
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        status = add_entry(folder, entry->d_name, folders, files, err);
    }
    closedir(entries);
    return status;
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

gyre_status gyre_path_list_files(gyre_path_list *files, const char *folder, gyre_error *err) {
    gyre_path_list folders = {NULL, 0, 0};
    gyre_status status = list_folder(folder, &folders, files, err);
    for (size_t i = 0; i < folders.count && !status; i++)
        status = list_folder(folders.paths[i], &folders, files, err);
    gyre_path_list_free(&folders);
    if (!status && files->count > 0) qsort(files->paths, files->count, sizeof *files->paths, compare_paths);
    return status;
}
