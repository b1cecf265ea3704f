/* journal.c: reading and extending a journal. */
#define _DEFAULT_SOURCE // NOLINT(bugprone-reserved-identifier): flock; glibc names this macro
#include "tools/common/journal.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_json.h"
#include "tools/cli/cli_progress.h"
#include "tools/cli/plain_stream.h"
#include "tools/team/team.h"
#include "util/atomic_file.h"
#include "util/file_lock.h"
#include "util/file_write.h"
#include "util/open_regular.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gyre_status load_line(line_journal *j, json_t *line, gyre_error *err) {
    gyre_status status = GYRE_OK;
    json_t *result = NULL;
    char *key = j->format.read_line(j->format.ctx, line, &result, &status, err);
    if (key && json_object_set(j->results, key, result))
        status = gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (%s)", j->path);
    free(key);
    return status;
}

/* *cut = 1 if a kill cut the last line off. */
static gyre_status read_lines(line_journal *j, int *cut, gyre_error *err) {
    *cut = 0;
    FILE *file = gyre_open_regular(j->path);
    if (!file) return gyre_fail(err, GYRE_EIO, "journal: %s (%s)", strerror(errno), j->path);
    gyre_status status = GYRE_OK;
    char *text = NULL;
    size_t capacity = 0;
    for (ssize_t length; !status && (length = getline(&text, &capacity, file)) > 0;) {
        *cut = text[length - 1] != '\n';
        json_t *line = json_loads(text, 0, NULL);
        if (line) status = load_line(j, line, err);
        json_decref(line);
    }
    /* getline may also fail for memory, and then says so neither to ferror nor to feof. */
    if (!status && !feof(file)) status = gyre_fail(err, GYRE_EIO, "journal: cannot be read to its end (%s)", j->path);
    free(text);
    fclose(file);
    return status;
}

/* The file itself is locked, whichever of its names was given. */
static gyre_status lock_file(const line_journal *j, gyre_error *err) {
    const int code = gyre_lock_file_patiently(fileno(j->file));
    if (code == EWOULDBLOCK) return gyre_fail(err, GYRE_EIO, "journal: another run is writing it (%s)", j->path);
    if (code) return gyre_fail(err, GYRE_EIO, "journal: cannot be locked: %s (%s)", strerror(code), j->path);
    return GYRE_OK;
}

/* A file is there after a power cut if its folder was synced.  A folder that may not be read cannot be. */
static gyre_status sync_folder(const line_journal *j, gyre_error *err) {
    const int code = gyre_sync_parent(j->path);
    if (code && code != EACCES && code != EPERM)
        return gyre_fail(err, GYRE_EIO, "journal: its folder cannot be synced: %s (%s)", strerror(code), j->path);
    return GYRE_OK;
}

/* Locked before it is read, so that no line comes between. */
static gyre_status open_file(line_journal *j, gyre_error *err) {
    int cut = 0;
    const int is_new = access(j->path, F_OK) != 0;
    j->file = fopen(j->path, "a");
    if (!j->file) return gyre_fail(err, GYRE_EIO, "journal: %s (%s)", strerror(errno), j->path);
    gyre_status status = lock_file(j, err);
    if (!status && is_new) status = sync_folder(j, err);
    if (!status && j->format.replace && ftruncate(fileno(j->file), 0) != 0)
        status = gyre_fail(err, GYRE_EIO, "journal: %s (%s)", strerror(errno), j->path);
    if (!status) status = read_lines(j, &cut, err);
    if (!status && cut) fputc('\n', j->file);
    return status;
}

static gyre_status check_name(const char *path, gyre_error *err) {
    struct stat info;
    if (gyre_descriptor_of(path) >= 0)
        return gyre_fail(err, GYRE_EINVAL, "journal: is an open descriptor, but a journal is read first; name a file (%s)",
                         path);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return gyre_fail(err, GYRE_EINVAL, "journal: not a regular file (%s)", path);
    return GYRE_OK;
}

/* out = 1 if all bytes are NUL. */
static int is_blank(const char *bytes, size_t length) {
    return length == 0 || (bytes[0] == '\0' && memcmp(bytes, bytes + 1, length - 1) == 0);
}

/* out = 1 if the line begins so.  Of one that a kill cut, as much as there is: NUL bytes alone follow what reached the
 * disk, and where nothing did, they are the line.  Before any whole line of the journal, *known = 0 would mean a foreign
 * file. */
static int is_own_line(const char *line, size_t length, const char *const *begins, int *known) {
    if (length && line[length - 1] == '\n') length--;
    const char *end = memchr(line, '\0', length);
    const size_t text = end ? (size_t)(end - line) : length;
    int own = length == 0 || (text == 0 && *known);
    for (; *begins && !own && text; begins++) {
        const size_t whole = strlen(*begins);
        own = strncmp(line, *begins, text < whole ? text : whole) == 0;
        if (own && text >= whole) *known = 1;
    }
    return own && is_blank(line + text, length - text);
}

gyre_status journal_check_file(const char *path, const char *const *begins, int *empty, gyre_error *err) {
    *empty = 1;
    gyre_status status = check_name(path, err);
    if (status || !begins) return status;
    FILE *file = gyre_open_regular(path);
    if (!file) return errno == ENOENT ? GYRE_OK : gyre_fail(err, GYRE_EIO, "journal: %s (%s)", strerror(errno), path);
    char *line = NULL;
    size_t capacity = 0;
    int own = 1, known = 0;
    for (ssize_t length; own && (length = getline(&line, &capacity, file)) > 0;) {
        own = is_own_line(line, (size_t)length, begins, &known);
        if (line[0] != '\n') *empty = 0;
    }
    if (!own)
        status = gyre_fail(err, GYRE_EINVAL, "journal: its content is not a journal of Gyre (%s)", path);
    else if (!feof(file))
        status = gyre_fail(err, GYRE_EIO, "journal: cannot be read to its end (%s)", path);
    free(line);
    fclose(file);
    return status;
}

gyre_status journal_open(line_journal *j, const char *path, const journal_format *format, gyre_error *err) {
    *j = (line_journal){.path = path, .format = *format, .results = json_object()};
    if (!j->results) return gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (%s)", path ? path : "results");
    if (!path) return GYRE_OK;
    /* One process reads and writes the file; all know what it holds. */
    return team_share_json(team_leads() ? open_file(j, err) : GYRE_OK, &j->results, err);
}

static gyre_status sync_lines(line_journal *j, gyre_error *err) {
    const int code = j->file && j->unsynced ? gyre_sync_data(fileno(j->file)) : 0;
    if (code) return gyre_fail(err, GYRE_EIO, "journal: cannot be synced: %s (%s)", strerror(code), j->path);
    j->unsynced = 0;
    j->synced = cli_seconds();
    return GYRE_OK;
}

gyre_status journal_finish(line_journal *j, gyre_error *err) {
    return team_agree(sync_lines(j, err), err);
}

void journal_close(line_journal *j) {
    (void)sync_lines(j, NULL); /* of a run that ends with another error, or was stopped */
    if (j->file) fclose(j->file);
    json_decref(j->results);
    *j = (line_journal){.path = NULL};
}

json_t *journal_find(const line_journal *j, const char *key) {
    return json_object_get(j->results, key);
}

/* What a model says may command a terminal that shows the file: such characters are spelled, and read back as they were.
 * out = 0, or errno. */
static int put_line(const line_journal *j, const json_t *line) {
    enum { LONGEST = 6 }; /* "\u007f" of one byte */
    char *text = json_dumps(line, JSON_COMPACT | j->format.flags);
    const size_t room = text ? LONGEST * strlen(text) + 1 : 0;
    char *plain = text ? malloc(room) : NULL;
    int code = plain ? 0 : ENOMEM;
    if (plain) {
        plain_text(plain, room, text);
        errno = EIO;
        if (fputs(plain, j->file) == EOF || fputc('\n', j->file) == EOF || fflush(j->file)) code = errno;
    }
    free(plain);
    free(text);
    return code;
}

gyre_status journal_write(line_journal *j, json_t *line, gyre_error *err) {
    /* A line that lacks a member would be taken for a result by --resume. */
    const int lost = !line || cli_json_check(0);
    gyre_status status = lost ? gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (%s)", j->path) : GYRE_OK;
    const int code = !status && j->file ? put_line(j, line) : 0;
    enum { SYNC_SECONDS = 1 };
    if (code) status = gyre_fail(err, code == ENOMEM ? GYRE_ENOMEM : GYRE_EIO, "journal: %s (%s)", strerror(code), j->path);
    json_decref(line);
    j->unsynced = 1;
    return status || cli_seconds() - j->synced < SYNC_SECONDS ? status : sync_lines(j, err);
}

gyre_status journal_add(line_journal *j, const char *key, json_t *result, json_t *line, gyre_error *err) {
    if (!key || !result || json_object_set(j->results, key, result)) {
        json_decref(line);
        return gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (%s)", j->path ? j->path : "results");
    }
    return journal_write(j, line, err);
}
