/* cmd_explore.c: gyre explore: opens the explorer in a browser, or writes a copy of it with a config inside. */
#define _XOPEN_SOURCE 700 // NOLINT(bugprone-reserved-identifier): realpath; POSIX defines this name
#include "tools/cli/cli.h"
#include "tools/cli/temporary_folder.h"
#include "tools/common/bundled_models.h"
#include "tools/common/model_path.h"
#include "tools/subcommands.h"
#include "util/checkpoint_files.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Where explorer/assemble.mjs leaves room for a config. */
static const char place[] = "<!-- CONFIG -->";
enum { MAX_CONFIG = 1 << 20, MAX_PAGE = 1 << 28 };

static const char documentation[] =
    "Opens the explorer in a browser and prints its path: a page that runs this library, with interactive pictures of "
    "rotations, scalings and biases, the output of explain, diff and extend, and a model that reads a text.\vWith CONFIG, a "
    "config.json or a folder with one, the page explains that model: a copy of the page that holds the config is opened. "
    "With --output the page, or that copy, is written to FILE and not opened. make explorer builds the page; it needs no "
    "network. GYRE_EXPLORER in the environment names another page.\n\n"
    "Examples:\n"
    "  gyre explore\n"
    "  gyre explore config.json\n"
    "  gyre explore -o explorer.html\n";

typedef struct explore_options {
    cli_options common;
    const char *config;
} explore_options;

static int read_argument(void *options, char *text) {
    explore_options *o = options;
    if (o->config) return 1;
    o->config = model_path_find(text); /* noted as read: --output must not be one of its files */
    return 0;
}

/* -- reading -- */
/* out = the bytes of a file and a NUL, to be freed; NULL with the error printed.  *size = without the NUL. */
static char *read_file(const char *path, size_t most, size_t *size) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */
    FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");
    struct stat info = {0};
    if (!file || fstat(fileno(file), &info) || !S_ISREG(info.st_mode)) {
        (void)cli_fail("%s: %s (explore)", path, file && info.st_mode ? "not a regular file" : strerror(errno));
    } else if (info.st_size < 0 || (uintmax_t)info.st_size > most) {
        (void)cli_fail("%s: more than %zu bytes (explore)", path, most);
    } else {
        char *out = malloc((size_t)info.st_size + 1);
        if (out) {
            *size = fread(out, 1, (size_t)info.st_size, file);
            out[*size] = 0;
            const int whole = *size == (size_t)info.st_size;
            if (!whole) (void)cli_fail("%s: %s (explore)", path, ferror(file) ? strerror(errno) : "became shorter");
            if (!whole) free(out);
            fclose(file);
            return whole ? out : NULL;
        }
        (void)cli_fail("memory: none for %s (explore)", path);
    }
    if (file) fclose(file);
    return NULL;
}

/* out = the config's text, from a file or a folder with config.json; NULL with the error printed. */
static char *read_config(const char *model, size_t *size) {
    char path[BUNDLED_PATH + sizeof GYRE_CONFIG_FILE];
    struct stat info;
    const char *found = model;
    const int is_folder = stat(found, &info) == 0 ? S_ISDIR(info.st_mode) : 0;
    const int n = snprintf(path, sizeof path, is_folder ? "%s/" GYRE_CONFIG_FILE : "%s", found);
    if (n < 0 || n >= (int)sizeof path) {
        (void)cli_fail("%.40s...: too long a path (explore)", found);
        return NULL;
    }
    char *text = read_file(path, MAX_CONFIG, size);
    if (text && *size >= 4 && memcmp(text, "GGUF", 4) == 0) {
        (void)cli_fail("%s: a GGUF; open the page and drop the file on it (explore)", path);
        free(text);
        return NULL;
    }
    return text;
}

/* -- writing -- */
/* Percent-encoded, any config can be part of a page. */
static void write_config(FILE *out, const char *text, size_t size) {
    fputs("<script type=\"text/plain\" id=\"given-config\">", out);
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        const int plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        fprintf(out, plain ? "%c" : "%%%02X", c);
    }
    fputs("</script>", out);
}

static int write_page(FILE *out, const char *path, const char *config, size_t config_size) {
    size_t size = 0;
    char *page = read_file(path, MAX_PAGE, &size);
    if (!page) return CLI_FAILED;
    char *at = config ? strstr(page, place) : NULL;
    int status = 0;
    if (config && !at) {
        status = cli_fail("%s: no place for a config: not a page of this version (explore)", path);
    } else {
        const size_t before = at ? (size_t)(at - page) : size, after = at ? before + sizeof place - 1 : size;
        fwrite(page, 1, before, out);
        if (at) write_config(out, config, config_size);
        fwrite(page + after, 1, size - after, out);
    }
    free(page);
    return status;
}

static int is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int write_copy(const char *target, const char *path, const char *config, size_t config_size) {
    cli_output output = {NULL, NULL, 0};
    int status = is_same_file(target, path)
                     ? cli_fail("--output: %s is the page itself; name another file (explore)", target)
                     : cli_output_open_raw(&output, target);
    if (!status) status = cli_output_close(&output, write_page(output.file, path, config, config_size));
    return status;
}

/* -- opening -- */
/* Without a display xdg-open would start a browser of the terminal, which runs no WebAssembly. */
static int has_display(void) {
#if defined(__APPLE__)
    return 1;
#else
    const char *x11 = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
    return (x11 && *x11) || (wayland && *wayland);
#endif
}

static void open_in_browser(const char *path) {
#if defined(__APPLE__)
    char program[] = "open";
#else
    char program[] = "xdg-open";
#endif
    char *const argv[] = {program, (char *)path, NULL};
    pid_t child = 0;
    int status = 0;
    if (!has_display()) {
        cli_warn("no display here: open the file in a browser");
    } else if (posix_spawnp(&child, program, NULL, NULL, argv, environ)) {
        cli_warn("%s: not found: open the file in a browser", program);
    } else {
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status)) cli_warn("%s: failed: open the file in a browser", program);
    }
}

/* path = the path of the copy with a config. */
static int temporary_page(char path[BUNDLED_PATH]) {
    temporary_folder folder; /* stays, for the browser */
    gyre_error err = {0, ""};
    if (temporary_folder_create(&folder, "explore", &err)) return cli_fail_error(&err);
    snprintf(path, BUNDLED_PATH, "%s/explorer.html", folder.path);
    return 0;
}

static int show(const char *path) {
    char *real = realpath(path, NULL);
    fprintf(cli_stdout(), "%s\n", real ? real : path);
    const int failed = fflush(cli_stdout());
    if (!failed) open_in_browser(real ? real : path);
    free(real);
    return failed ? cli_fail("standard output: %s (explore)", strerror(errno)) : 0;
}

static int run(const explore_options *o, const char *page, const char *config, size_t size) {
    char copy[BUNDLED_PATH];
    if (o->common.output) return write_copy(o->common.output, page, config, size);
    if (!config) return show(page);
    int status = temporary_page(copy);
    if (!status) status = write_copy(copy, page, config, size);
    return status ? status : show(copy);
}

int cmd_explore(int argc, char **argv) {
    static const cli_command command = {NULL, CLI_OUTPUT, "[CONFIG]", documentation, read_argument, 0, NULL};
    explore_options o = {.config = NULL};
    char page[BUNDLED_PATH], *config = NULL;
    size_t size = 0;
    gyre_error err = {0, ""};
    cli_parse(&command, argc, argv, &o);
    if (bundled_explorer_path(page, &err)) return cli_fail_error(&err);
    if (access(page, R_OK) != 0)
        return cli_fail("explorer.html: not there: make explorer builds it, make install installs it (%s)", page);
    if (o.config && !(config = read_config(o.config, &size))) return CLI_FAILED;
    const int status = run(&o, page, config, size);
    free(config);
    return status;
}
