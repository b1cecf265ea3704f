/* hub_cache.c: the folders of huggingface_hub's cache: models--ORG--NAME/refs/REVISION holds a commit, and
 * models--ORG--NAME/snapshots/COMMIT the files, as links to blobs. */
#include "tools/common/hub_cache.h"
#include "tools/cli/cli_error.h"
#include "util/absent_path.h"
#include "util/checkpoint_files.h"
#include "util/open_regular.h"
#include "util/plain_numbers.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_REPO = 96, MAX_REVISION = 128, MAX_COMMIT = 64 };

/* -- names -- */
typedef struct hub_name {
    char repo[MAX_REPO + 1], folder[MAX_REPO + 16]; /* "ORG/NAME", "models--ORG--NAME" */
    char revision[MAX_REVISION + 1];                /* "" = not given */
} hub_name;

/* out = the length of the name at the start of text: letters, digits, dots, dashes and underscores, no dot or dash first. */
static size_t name_length(const char *text) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    if (!*text || !strchr(plain, *text)) return 0;
    size_t length = strspn(text, "-.ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    for (size_t i = 0; i + 1 < length; i++) /* the hub forbids both, and "--" takes the place of a slash */
        if ((text[i] == '-' || text[i] == '.') && text[i + 1] == text[i]) return 0;
    return length;
}

static int is_revision(const char *text) {
    return *text && *text != '/' && strlen(text) <= MAX_REVISION && !strstr(text, "..");
}

static int parse_name(const char *model, hub_name *out) {
    const size_t first = name_length(model), slash = first && model[first] == '/';
    const size_t second = slash ? name_length(model + first + 1) : 0, length = first + slash + second;
    if (!first || (slash && !second) || length > MAX_REPO) return 0;
    const char *rest = model + length;
    if (*rest && (*rest != '@' || !is_revision(rest + 1))) return 0;
    snprintf(out->repo, sizeof out->repo, "%.*s", (int)length, model);
    snprintf(out->folder, sizeof out->folder, "models--%.*s%s%.*s", (int)first, model, slash ? "--" : "", (int)second,
             slash ? model + first + 1 : "");
    snprintf(out->revision, sizeof out->revision, "%s", *rest ? rest + 1 : "");
    return 1;
}

int hub_cache_is_name(const char *model) {
    hub_name name;
    return parse_name(model, &name);
}

int hub_cache_has_organisation(const char *model) {
    hub_name name;
    return parse_name(model, &name) && strchr(name.repo, '/');
}

/* -- the cache -- */
/* out = a variable of the environment, or NULL if it is not set or empty. */
static const char *variable(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* Joins folder and name.  A ~ at the start of the folder is HOME.  out = 0 if it does not fit or HOME is not known. */
static int join(char out[HUB_PATH], const char *folder, const char *name) {
    const char *home = "";
    if (folder[0] == '~' && (folder[1] == '/' || !folder[1])) {
        home = variable("HOME");
        folder++;
    }
    return home && snprintf(out, HUB_PATH, "%s%s%s", home, folder, name) < HUB_PATH;
}

/* out = 0 if the environment names no folder. */
static int cache_folder(char out[HUB_PATH]) {
    const char *hub = variable("HF_HUB_CACHE"), *home = variable("HF_HOME"), *xdg = variable("XDG_CACHE_HOME");
    if (!hub) hub = variable("HUGGINGFACE_HUB_CACHE");
    if (hub) return join(out, hub, "");
    if (home) return join(out, home, "/hub");
    return join(out, xdg ? xdg : "~/.cache", "/huggingface/hub");
}

/* out = 1 if a word can name a folder of snapshots, and nothing outside. */
static int is_commit(const char *word) {
    return *word && !strchr(word, '/') && *word != '.';
}

/* commit = the first word of a file under refs/, "" if there is none.  out = 1 if it is a commit. */
static int read_reference(const char *repo, const char *revision, char commit[MAX_COMMIT + 1]) {
    char path[HUB_PATH];
    commit[0] = 0;
    if (snprintf(path, sizeof path, "%s/refs/%s", repo, revision) >= (int)sizeof path) return 0;
    FILE *file = gyre_open_regular(path);
    if (!file) return 0;
    commit[fread(commit, 1, MAX_COMMIT, file)] = 0;
    fclose(file);
    commit[strcspn(commit, " \t\r\n")] = 0;
    return is_commit(commit);
}

static int is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int is_newer(const struct stat *a, const struct stat *b) {
    if (a->st_mtim.tv_sec != b->st_mtim.tv_sec) return a->st_mtim.tv_sec > b->st_mtim.tv_sec;
    return a->st_mtim.tv_nsec > b->st_mtim.tv_nsec;
}

/* path = the newest folder of repo/snapshots.  out = how many there are. */
static int newest_snapshot(const char *repo, char path[HUB_PATH]) {
    char folder[HUB_PATH], one[HUB_PATH + 256];
    struct stat newest = {0}, info;
    int count = 0;
    if (!join(folder, repo, "/snapshots")) return 0;
    DIR *entries = opendir(folder);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        snprintf(one, sizeof one, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || stat(one, &info) || !S_ISDIR(info.st_mode) || strlen(one) >= HUB_PATH) continue;
        if (count++ && !is_newer(&info, &newest)) continue;
        newest = info;
        snprintf(path, HUB_PATH, "%.*s", HUB_PATH - 1, one);
    }
    if (entries) closedir(entries);
    return count;
}

/* path = the snapshot of the revision.  out = 0 if there is none. */
static int find_snapshot(const hub_name *name, const char *repo, char path[HUB_PATH]) {
    char commit[MAX_COMMIT + 1];
    const char *revision = *name->revision ? name->revision : "main";
    const int known = read_reference(repo, revision, commit);
    if (!known && *commit) return 0; /* it names something else */
    if (!known && !*name->revision) {
        const int count = newest_snapshot(repo, path);
        if (count > 1) cli_warn("%s: %d snapshots and no refs/main; the newest is read (%s)", name->repo, count, path);
        return count > 0;
    }
    if (!known && strchr(revision, '/')) return 0;
    return snprintf(path, HUB_PATH, "%s/snapshots/%s", repo, known ? commit : revision) < HUB_PATH && is_folder(path);
}

/* -- a snapshot -- */
static int has_file(const char *folder, const char *name) {
    char path[HUB_PATH + 256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return !gyre_is_absent(path); /* follows the link: a blob that was removed is a missing file */
}

/* gguf = the name of one file *.gguf in the folder.  out = how many there are. */
static int count_gguf(const char *folder, char gguf[256]) {
    DIR *entries = opendir(folder);
    int count = 0;
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".gguf") != 0 || !has_file(folder, entry->d_name)) continue;
        if (!count++ || strcmp(entry->d_name, gguf) < 0) snprintf(gguf, 256, "%s", entry->d_name);
    }
    if (entries) closedir(entries);
    return count;
}

static gyre_status find_in_snapshot(const hub_name *name, char path[HUB_PATH], gyre_error *err) {
    char gguf[256] = "";
    const char *revision = *name->revision ? " --revision " : "";
    if (has_file(path, GYRE_CONFIG_FILE) || has_file(path, "tokenizer.json")) return GYRE_OK;
    const int count = count_gguf(path, gguf);
    const size_t used = strlen(path);
    if (count > 1)
        return gyre_fail(err, GYRE_EIO, "%s: %d GGUF files; name one, such as %s/%s", name->repo, count, path, gguf);
    if (count == 1 && used + strlen(gguf) + 2 < HUB_PATH) {
        gyre_plain_snprintf(path + used, HUB_PATH - used, "/%.255s", gguf);
        return GYRE_OK;
    }
    return gyre_fail(err, GYRE_EIO,
                     "%s: in the Hugging Face cache, but without config.json; nothing is downloaded here, `hf download "
                     "%s%s%s` completes it (%s)",
                     name->repo, name->repo, revision, name->revision, path);
}

gyre_status hub_cache_find(const char *model, char path[HUB_PATH], gyre_error *err) {
    hub_name name;
    char cache[HUB_PATH] = "", repo[HUB_PATH + MAX_REPO + 32];
    if (!parse_name(model, &name)) return gyre_fail(err, GYRE_EINVAL, "%.200s: no name of the hub (cache)", model);
    const int named = cache_folder(cache);
    snprintf(repo, sizeof repo, "%s/%s", cache, name.folder);
    if (named && strlen(repo) < HUB_PATH && find_snapshot(&name, repo, path)) return find_in_snapshot(&name, path, err);
    char commit[MAX_COMMIT + 1] = "";
    const char *reference = *name.revision ? name.revision : "main";
    if (named && strlen(repo) < HUB_PATH && read_reference(repo, reference, commit))
        return gyre_fail(err, GYRE_EIO,
                         "%s: refs/%s names the snapshot %s, which is missing; nothing is downloaded here, `hf download "
                         "%s%s%s` does it (%s)",
                         model, reference, commit, name.repo, *name.revision ? " --revision " : "", name.revision, repo);
    if (named && strlen(repo) < HUB_PATH && *commit)
        return gyre_fail(err, GYRE_EIO,
                         "%s: refs/%s holds \"%s\", which names no snapshot; `hf download %s%s%s` writes it again (%s)",
                         model, reference, commit, name.repo, *name.revision ? " --revision " : "", name.revision, repo);
    const int lacks_revision = named && *name.revision && is_folder(repo);
    return gyre_fail(
        err, GYRE_EIO,
        "%s: no such file or folder, and %s in the Hugging Face cache; nothing is downloaded here, `hf download "
        "%s%s%s` does it (looked for ./%.40s and %s)",
        model, lacks_revision ? "no such revision" : "not", name.repo, *name.revision ? " --revision " : "", name.revision,
        model, named ? repo : "no cache: neither HF_HOME nor HOME is set");
}

int hub_cache_repo(const char *model, char repo[HUB_PATH]) {
    hub_name name;
    char cache[HUB_PATH] = "", folder[MAX_REPO + 20];
    if (!parse_name(model, &name) || !cache_folder(cache)) return 0;
    snprintf(folder, sizeof folder, "/%s", name.folder);
    return join(repo, cache, folder);
}
