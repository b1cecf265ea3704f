/* path_list.h: the files under a folder. */
#ifndef GYRE_EVAL_PATH_LIST_H
#define GYRE_EVAL_PATH_LIST_H
#include "gyre/gyre.h"

/* All zeros is an empty list. */
typedef struct gyre_path_list {
    char **paths;
    size_t count, capacity;
} gyre_path_list;

/* files = all regular files under `folder`, sorted by path.  The caller frees the list, also after an error. */
gyre_status gyre_path_list_files(gyre_path_list *files, const char *folder, gyre_error *err);
void gyre_path_list_free(gyre_path_list *list);

#endif
