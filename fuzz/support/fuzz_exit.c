/* fuzz_exit.c: the linker sends calls of exit here (--wrap=exit). */
#include "fuzz_exit.h"

#include "fuzz_support.h"
#include "tools/cli/cli.h"
#include "tools/cli/cli_guard.h"
#include "tools/common/model_path.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Noreturn void __real_exit(int status);
_Noreturn void __wrap_exit(int status);

static jmp_buf ended;
static int armed, exit_status;

/* -- what an exit leaves allocated: the process's to free, and no leak -- */
/* Of the sanitizers; absent where none is linked. */
__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                                                    void (*on_free)(const volatile void *));
__attribute__((weak)) void __lsan_ignore_object(const void *p);

enum { LIVE = 1 << 14 }; /* places; half of them are used, and what comes after is forgotten */
static const volatile void *live[LIVE];
static size_t live_count;
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t home_of(const volatile void *p) {
    return ((uintptr_t)p >> 4) * 0x9E3779B1U % LIVE;
}

/* out = where p stands, or the empty place where the search for it ended; there always is one. */
static size_t place_of(const volatile void *p) {
    size_t at = home_of(p);
    while (live[at] && live[at] != p)
        at = (at + 1) % LIVE;
    return at;
}

static void note_allocation(const volatile void *p, size_t bytes) {
    (void)bytes;
    if (!armed || !p) return;
    pthread_mutex_lock(&live_lock);
    const size_t at = place_of(p);
    if (!live[at] && live_count < LIVE / 2) {
        live[at] = p;
        live_count++;
    }
    pthread_mutex_unlock(&live_lock);
}

/* Moves those back that a later search would not reach over the gap. */
static void take_out(size_t gap) {
    for (size_t at = (gap + 1) % LIVE; live[at]; at = (at + 1) % LIVE)
        if ((at - home_of(live[at])) % LIVE >= (at - gap) % LIVE) {
            live[gap] = live[at];
            gap = at;
        }
    live[gap] = NULL;
    live_count--;
}

static void note_free(const volatile void *p) {
    if (!armed || !p) return;
    pthread_mutex_lock(&live_lock);
    const size_t at = place_of(p);
    if (live[at]) take_out(at);
    pthread_mutex_unlock(&live_lock);
}

static void watch_allocations(void) {
    static int watched;
    if (!watched && __sanitizer_install_malloc_and_free_hooks && __lsan_ignore_object)
        fuzz_require(__sanitizer_install_malloc_and_free_hooks(note_allocation, note_free) > 0, "room for hooks");
    watched = 1;
    if (live_count > 0) memset(live, 0, sizeof live);
    live_count = 0;
}

static void ignore_allocations(void) {
    for (size_t i = 0; i < LIVE && live_count > 0 && __lsan_ignore_object; i++)
        if (live[i]) __lsan_ignore_object((const void *)live[i]);
}

_Noreturn void __wrap_exit(int status) {
    if (!armed) __real_exit(status);
    exit_status = status;
    longjmp(ended, 1);
}

static void silence(void) {
    static int silent;
    if (silent) return;
    silent = 1;
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    fuzz_require(null >= 0 && dup2(null, STDOUT_FILENO) >= 0, "/dev/null");
}

int fuzz_until_exit(int (*fn)(void *arg), void *arg) {
    silence();
    watch_allocations();
    armed = 1;
    const int exited = setjmp(ended);
    if (!exited) exit_status = fn(arg);
    armed = 0;
    cli_guard_forget();
    cli_output_forget();
    model_path_forget();
    if (exited) ignore_allocations();
    return cli_stdout_close(exit_status);
}

typedef struct command_line {
    int (*command)(int argc, char **argv);
    const char *const *words;
} command_line;

static int run_line(void *arg) {
    enum { MOST = 40, LONGEST = 160 };
    static char texts[MOST][LONGEST];
    char *argv[MOST + 1];
    const command_line *line = arg;
    int argc = 0;
    for (; line->words[argc]; argc++) {
        fuzz_require(argc < MOST && strlen(line->words[argc]) < LONGEST, "room for the words");
        argv[argc] = strcpy(texts[argc], line->words[argc]);
    }
    argv[argc] = NULL;
    return line->command(argc, argv);
}

int fuzz_command(int (*command)(int argc, char **argv), const char *const *words) {
    command_line line = {command, words};
    return fuzz_until_exit(run_line, &line);
}
