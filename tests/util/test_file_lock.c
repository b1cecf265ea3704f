/* test_file_lock.c: src/util: locks that another process holds for a moment, or for good. */
#define _GNU_SOURCE /* mkostemp */
#include "support.h"
#include "util/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct holder {
    pid_t process;
    int file; /* of the same file, another descriptor */
    char path[32];
} holder;

/* A child that has locked the file, and ends after some milliseconds. */
static holder hold(long milliseconds) {
    holder h = {.path = "/tmp/gyre-util-XXXXXX"};
    int ready[2];
    char byte = 0;
    assert_true((h.file = mkostemp(h.path, O_CLOEXEC)) >= 0);
    assert_int_equal(pipe(ready), 0);
    assert_true((h.process = fork()) >= 0);
    if (h.process == 0) {
        const int file = open(h.path, O_RDWR);
        const struct timespec pause = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};
        if (gyre_lock_file(file) || write(ready[1], "", 1) != 1) _exit(1);
        (void)nanosleep(&pause, NULL);
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return h;
}

/* out = the status of the child. */
static int end(const holder *h) {
    int status = 0;
    assert_int_equal(waitpid(h->process, &status, 0), h->process);
    close(h->file);
    assert_int_equal(unlink(h->path), 0);
    return status;
}

/* As the lock of a killed process, which is released a little later. */
static void for_a_moment(void **state) {
    (void)state;
    const holder h = hold(300);
    assert_int_equal(gyre_lock_file(h.file), EWOULDBLOCK);
    assert_int_equal(gyre_process_is_gone((long)h.process), 0);
    assert_int_equal(gyre_lock_file_patiently(h.file), 0);
    assert_int_equal(gyre_lock_file(h.file), 0); /* its own */
    assert_int_equal(end(&h), 0);
    assert_int_equal(gyre_process_is_gone((long)h.process), 1);
}

/* A run that goes on is not waited for. */
static void for_good(void **state) {
    (void)state;
    const holder h = hold(600000);
    assert_int_equal(gyre_lock_file_patiently(h.file), EWOULDBLOCK);
    assert_int_equal(kill(h.process, SIGKILL), 0);
    assert_true(WIFSIGNALED(end(&h)));
}

static void wrong_use(void **state) {
    (void)state;
    assert_int_equal(gyre_lock_file(-1), EBADF);
    assert_int_equal(gyre_lock_file_patiently(-1), EBADF);
    assert_int_equal(gyre_process_is_gone(0), 0);
    assert_int_equal(gyre_process_is_gone((long)getpid()), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(for_a_moment), cmocka_unit_test(for_good),
                                       cmocka_unit_test(wrong_use)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
