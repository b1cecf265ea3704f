/* fuzz_exit.c: the linker sends calls of exit here (--wrap=exit). */
#include "fuzz_exit.h"

#include "fuzz_support.h"
#include "tools/cli/cli.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Noreturn void __real_exit(int status);
_Noreturn void __wrap_exit(int status);

static jmp_buf ended;
static int armed, exit_status;

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
    armed = 1;
    if (setjmp(ended) == 0) exit_status = fn(arg);
    armed = 0;
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
