/* training_text.c: user texts, and the system headers. */
#include "tools/options/training_text.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_guard.h"
#include "util/absent_path.h"
#include <glob.h>
#include <stdio.h>

/* Folders and files that the C library and the kernel install, independent of what else is on the machine. */
static const char *const FOLDERS[] = {"arpa",      "asm-generic", "linux", "misc",  "mtd",   "net", "netinet",
                                      "protocols", "rdma",        "scsi",  "sound", "video", "xen"};
static const char *const MACHINE_FOLDERS[] = {"asm", "bits", "gnu", "sys"};
static const char *const FILES[] = {
    "aio.h",          "aliases.h",
    "alloca.h",       "ar.h",
    "argp.h",         "argz.h",
    "assert.h",       "byteswap.h",
    "complex.h",      "cpio.h",
    "ctype.h",        "dirent.h",
    "dlfcn.h",        "elf.h",
    "endian.h",       "envz.h",
    "err.h",          "errno.h",
    "error.h",        "execinfo.h",
    "fcntl.h",        "features-time64.h",
    "features.h",     "fenv.h",
    "fmtmsg.h",       "fnmatch.h",
    "fstab.h",        "fts.h",
    "ftw.h",          "gconv.h",
    "getopt.h",       "glob.h",
    "gnu-versions.h", "grp.h",
    "gshadow.h",      "iconv.h",
    "ifaddrs.h",      "inttypes.h",
    "langinfo.h",     "lastlog.h",
    "libgen.h",       "libintl.h",
    "limits.h",       "link.h",
    "locale.h",       "malloc.h",
    "math.h",         "mcheck.h",
    "memory.h",       "mntent.h",
    "monetary.h",     "mqueue.h",
    "netdb.h",        "nl_types.h",
    "nss.h",          "obstack.h",
    "paths.h",        "poll.h",
    "printf.h",       "proc_service.h",
    "pthread.h",      "pty.h",
    "pwd.h",          "re_comp.h",
    "regex.h",        "regexp.h",
    "resolv.h",       "sched.h",
    "search.h",       "semaphore.h",
    "setjmp.h",       "sgtty.h",
    "shadow.h",       "signal.h",
    "spawn.h",        "stab.h",
    "stdc-predef.h",  "stdint.h",
    "stdio.h",        "stdio_ext.h",
    "stdlib.h",       "string.h",
    "strings.h",      "syscall.h",
    "sysexits.h",     "syslog.h",
    "tar.h",          "termio.h",
    "termios.h",      "tgmath.h",
    "thread_db.h",    "threads.h",
    "time.h",         "ttyent.h",
    "uchar.h",        "ucontext.h",
    "ulimit.h",       "unistd.h",
    "utime.h",        "utmp.h",
    "utmpx.h",        "values.h",
    "wait.h",         "wchar.h",
    "wctype.h",       "wordexp.h",
};
enum { MAX_PATHS = 256, MAX_PATH_LENGTH = 128, COUNT_FILES = sizeof FILES / sizeof *FILES };

typedef struct paths {
    char text[MAX_PATHS][MAX_PATH_LENGTH];
    const char *list[MAX_PATHS];
    int64_t count;
} paths;

static void add_path(paths *p, const char *folder, const char *name) {
    char *path = p->text[p->count];
    const int length = snprintf(path, MAX_PATH_LENGTH, "%s/%s", folder, name);
    if (length < 0 || length >= MAX_PATH_LENGTH || gyre_is_absent(path) || p->count + 1 >= MAX_PATHS) return;
    p->list[p->count++] = path;
}

/* Debian keeps machine-dependent headers in a folder of their own under /usr/include; other systems do not. */
static void add_machine_paths(paths *p) {
    glob_t found;
    const int none = glob("/usr/include/*-linux-*", 0, NULL, &found);
    for (size_t f = 0; f < sizeof MACHINE_FOLDERS / sizeof *MACHINE_FOLDERS; f++) {
        add_path(p, "/usr/include", MACHINE_FOLDERS[f]);
        for (size_t i = 0; !none && i < found.gl_pathc; i++)
            add_path(p, found.gl_pathv[i], MACHINE_FOLDERS[f]);
    }
    if (!none) globfree(&found);
}

void training_texts_read(const char *option, const char *text, void *at) {
    training_texts *texts = at;
    if (texts->count == MAX_TRAINING_TEXTS)
        cli_usage_error("%s: more than %d given; put the files into a folder", option, MAX_TRAINING_TEXTS);
    texts->paths[texts->count++] = text;
}

/* out = the headers of this machine; their names last to the end of the program. */
static const paths *find_headers(void) {
    static paths found;
    if (found.count) return &found;
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++)
        add_path(&found, "/usr/include", FOLDERS[i]);
    add_machine_paths(&found);
    for (size_t i = 0; i < COUNT_FILES; i++)
        add_path(&found, "/usr/include", FILES[i]);
    return &found;
}

void header_corpus_note(void) {
    const paths *p = find_headers();
    for (int64_t i = 0; i < p->count; i++)
        cli_guard_read(p->list[i]);
}

gyre_status header_corpus_open(gyre_text *out, gyre_text_split split, int64_t min_bytes, gyre_error *err) {
    const paths *p = find_headers();
    if (!p->count) return gyre_fail(err, GYRE_EIO, "headers: none found; name a text with --text (/usr/include)");
    return gyre_text_open(out, p->list, p->count, split, min_bytes, err);
}
