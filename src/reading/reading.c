/* reading.c: finding out what a path or some bytes are, and who reads them. */
#include "core/fail.h"
#include "files/file_read.h"
#include "files/json_load.h"
#include "reading/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char magic[] = {'G', 'G', 'U', 'F'};
enum { MAX_CONFIG_BYTES = 64 << 20 }; /* bytes; real ones have a few thousand */

static const char *const profiles[] = {
    [GYRE_PROFILE_HF_5] = "hf-5",          [GYRE_PROFILE_HF_4_56] = "hf-4.56", [GYRE_PROFILE_HF_4_51] = "hf-4.51",
    [GYRE_PROFILE_HF_4_43] = "hf-4.43",    [GYRE_PROFILE_VLLM] = "vllm",       [GYRE_PROFILE_LLAMA_CPP] = "llama.cpp",
    [GYRE_PROFILE_REFERENCE] = "reference"};
enum { PROFILES = sizeof profiles / sizeof *profiles };

const char *gyre_profile_name(gyre_profile profile) {
    return (unsigned)profile < PROFILES ? profiles[profile] : NULL;
}

/* -- config.json -- */
/* out = what an editor has put before the text, which no reader of JSON takes; NULL = nothing. */
static const char *byte_order_mark(const char *text, size_t bytes) {
    if (bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) return "UTF-8";
    const int is_wide = bytes >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0);
    return is_wide ? "UTF-16" : NULL;
}

static void read_json(gyre_build *build, const char *text, size_t bytes) {
    json_error_t error;
    if (bytes > MAX_CONFIG_BYTES) {
        gyre_build_fail(build, GYRE_EFORMAT, NULL, "config.json: longer than %d MiB", MAX_CONFIG_BYTES >> 20);
        return;
    }
    const char *mark = byte_order_mark(text, bytes);
    if (mark) {
        gyre_build_fail(build, GYRE_EFORMAT, NULL,
                        "config.json: begins with the byte order mark of %s; save it as UTF-8 without one", mark);
        return;
    }
    json_t *root = gyre_json_load(text, bytes, &error);
    const gyre_json_source source = {build, text, bytes};
    if (!root) {
        const gyre_place place = {NULL, error.line > 0 ? error.line : 1, error.position > 0 ? (uint64_t)error.position : 0};
        /* Without memory too: jansson does not tell. */
        gyre_build_fail(build, GYRE_EFORMAT, &place, "config.json: %.200s", error.text);
    } else if (!json_is_object(root)) {
        gyre_build_fail(build, GYRE_EFORMAT, NULL, "config.json: not an object");
    } else {
        gyre_read_config_json(&source, root);
    }
    json_decref(root);
}

/* -- either -- */
static gyre_status read_bytes(gyre_reading **out, const void *bytes, size_t size, int mapped, const char *path,
                              gyre_profile profile, int64_t length, gyre_error *err) {
    const int is_gguf = size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
    if (profile == GYRE_PROFILE_DEFAULT) profile = is_gguf ? GYRE_PROFILE_LLAMA_CPP : GYRE_PROFILE_HF_5;
    gyre_build *build = gyre_build_begin(path, is_gguf ? "GGUF" : "config.json", profile, length, err);
    if (!build) return GYRE_ENOMEM;
    if (is_gguf)
        gyre_read_gguf(build, bytes, size, mapped);
    else
        read_json(build, bytes, size);
    return gyre_build_finish(build, out);
}

static gyre_status check_arguments(gyre_profile profile, int64_t length, gyre_error *err) {
    if ((unsigned)profile >= PROFILES) return gyre_fail(err, GYRE_EINVAL, "profile: %d is none", (int)profile);
    if (length < 0) return gyre_fail(err, GYRE_EINVAL, "length: below 0");
    return GYRE_OK;
}

gyre_status gyre_reading_parse(gyre_reading **out, const void *bytes, size_t size, const char *name, gyre_profile profile,
                               int64_t length, gyre_error *err) {
    const gyre_status status = check_arguments(profile, length, err);
    if (status != GYRE_OK) return status;
    if (!out || (!bytes && size > 0)) return gyre_fail(err, GYRE_EINVAL, "gyre_reading_parse: an argument is missing");
    return read_bytes(out, bytes, size, 0, name ? name : "memory", profile, length, err);
}

static gyre_status open_file(gyre_reading **out, const char *path, gyre_profile profile, int64_t length, gyre_error *err) {
    if (gyre_file_starts_with(path, magic, sizeof magic)) {
        gyre_mapping map = {NULL, 0};
        gyre_status status = gyre_mapping_open(&map, path, err);
        if (status == GYRE_OK) status = read_bytes(out, map.bytes, map.size, 1, path, profile, length, err);
        gyre_mapping_close(&map);
        return status;
    }
    /* Somebody's weights are not read into memory to find that they are no JSON. */
    struct stat info;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > MAX_CONFIG_BYTES)
        return gyre_fail(err, GYRE_EFORMAT, "%s: neither a GGUF file nor a config.json (longer than %d MiB)", path,
                         MAX_CONFIG_BYTES >> 20);
    char *text = NULL;
    size_t bytes = 0;
    gyre_status status = gyre_file_read(path, &text, &bytes, err);
    if (status == GYRE_OK) status = read_bytes(out, text, bytes, 0, path, profile, length, err);
    free(text);
    return status;
}

gyre_status gyre_reading_open(gyre_reading **out, const char *path, gyre_profile profile, int64_t length, gyre_error *err) {
    struct stat info;
    const gyre_status status = check_arguments(profile, length, err);
    if (status != GYRE_OK) return status;
    if (!out || !path) return gyre_fail(err, GYRE_EINVAL, "gyre_reading_open: an argument is missing");
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return open_file(out, path, profile, length, err);
    char inside[4096];
    const size_t end = strlen(path);
    const char *slash = end > 0 && path[end - 1] == '/' ? "" : "/";
    if (snprintf(inside, sizeof inside, "%s%sconfig.json", path, slash) >= (int)sizeof inside)
        return gyre_fail(err, GYRE_EINVAL, "%.100s...: the path is too long", path);
    return open_file(out, inside, profile, length, err);
}
