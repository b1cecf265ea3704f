/* test_text.c: the files that a text consists of, their order, and refusals. */
#include "temp_folder.h"
#include "util/fnv1a.h"

#include "gyre/gyre_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_text(const char *name, const char *text) {
    write_file(name, text, strlen(text));
}

static gyre_text open_text(const char *path, gyre_text_split split) {
    gyre_text text;
    gyre_error err = {0, ""};
    if (gyre_text_open(&text, &path, 1, split, 1, &err) != GYRE_OK) fail_msg("%s", err.text);
    return text;
}

static void assert_text(const gyre_text *text, const char *wanted) {
    assert_int_equal(text->count, strlen(wanted));
    for (int64_t i = 0; i < text->count; i++)
        assert_int_equal(text->ids[i], (unsigned char)wanted[i]);
}

static void assert_refused(const char *const *paths, int64_t count, int64_t least, gyre_status wanted, const char *why) {
    gyre_text text = {NULL, 7, 7, 7, 7};
    gyre_error err = {0, ""};
    const gyre_status status = gyre_text_open(&text, paths, count, GYRE_TEXT_SPLIT_ALL, least, &err);
    if (status != wanted || !strstr(err.text, why))
        fail_msg("status %d, \"%s\"; wanted %d and \"%s\"", (int)status, err.text, (int)wanted, why);
    assert_int_equal(text.count, 7);
}

/* Test vectors of the hash's authors. */
static void test_hash(void **state) {
    (void)state;
    assert_true(gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, "", 0) == 0xcbf29ce484222325u);
    assert_true(gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, "foobar", 6) == 0x85944171f73967e8u);
    assert_true(gyre_fnv1a(gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, "foo", 3), "bar", 3) == 0x85944171f73967e8u);
}

static void test_takes_any_byte(void **state) {
    (void)state;
    const char *paths[2] = {in_folder("beta"), in_folder("gamma")};
    gyre_text text;
    write_text("beta", "beta");
    write_file("gamma", "\0gamma\377", 7);
    assert_ok(gyre_text_open(&text, paths, 2, GYRE_TEXT_SPLIT_ALL, 11, NULL));
    assert_int_equal(text.count, 11);
    assert_int_equal(text.files, 2);
    assert_int_equal(text.ids[4], 0);
    assert_int_equal(text.ids[10], 255);
    assert_true(text.hash == 0x6f132a49c4b76cfu); /* of these eleven bytes, computed elsewhere */
    gyre_text_free(&text);
    assert_null(text.ids);
    assert_int_equal(text.count, 0);
}

/* In byte order '-' < '/' < '0': "a-" comes before the files in "a", and "a0" after them. */
static void test_walks_in_byte_order(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_folder("tree"), 0755), 0);
    assert_int_equal(mkdir(in_folder("tree/a"), 0755), 0);
    assert_int_equal(mkdir(in_folder("tree/a/deep"), 0755), 0);
    assert_int_equal(mkdir(in_folder("tree/void"), 0755), 0);
    write_text("tree/a0", "5");
    write_text("tree/a-", "1");
    write_text("tree/a/z", "4");
    write_text("tree/a/deep/x", "3");
    write_text("tree/a/\xc3\xa4", "_");
    write_text("tree/a/B", "2");
    write_text("tree/.hidden", "0");
    assert_int_equal(symlink("a0", in_folder("tree/link")), 0);
    assert_int_equal(symlink("..", in_folder("tree/a/up")), 0);
    assert_int_equal(symlink("nowhere", in_folder("tree/dangling")), 0);
    assert_int_equal(mkfifo(in_folder("tree/pipe"), 0600), 0);
    gyre_text text = open_text(in_folder("tree"), GYRE_TEXT_SPLIT_ALL),
              slash = open_text(in_folder("tree/"), GYRE_TEXT_SPLIT_ALL);
    assert_text(&text, "01234_5");
    assert_int_equal(text.files, 7);
    assert_true(slash.hash == text.hash);
    gyre_text_free(&text);
    gyre_text_free(&slash);
    text = open_text(in_folder("tree/link"), GYRE_TEXT_SPLIT_ALL); /* named by the user: links are followed */
    assert_text(&text, "5");
    gyre_text_free(&text);
}

/* Of "file 0" .. "file 59", these have a hash that ends in the digit 0. */
static void test_splits_by_content(void **state) {
    (void)state;
    static const int held_out[] = {3, 9, 16, 29, 38, 50};
    char wanted[256] = "", name[32], bytes[32];
    assert_int_equal(mkdir(in_folder("many"), 0755), 0);
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof name, "many/%02d", i);
        snprintf(bytes, sizeof bytes, "file %d", i);
        write_text(name, bytes);
    }
    for (size_t i = 0; i < sizeof held_out / sizeof *held_out; i++)
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "file %d", held_out[i]);
    gyre_text held = open_text(in_folder("many"), GYRE_TEXT_SPLIT_HELD_OUT),
              rest = open_text(in_folder("many"), GYRE_TEXT_SPLIT_TRAIN),
              all = open_text(in_folder("many"), GYRE_TEXT_SPLIT_ALL);
    assert_text(&held, wanted);
    assert_int_equal(held.files, 6);
    assert_int_equal(rest.files, 54);
    assert_int_equal(all.count, held.count + rest.count);
    gyre_text_free(&held);
    gyre_text_free(&rest);
    gyre_text_free(&all);
    gyre_text text;
    gyre_error err;
    const char *one = in_folder("many/00");
    assert_int_equal(gyre_text_open(&text, &one, 1, GYRE_TEXT_SPLIT_HELD_OUT, 1, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "none of 1 files is held out"));
}

static void test_refuses(void **state) {
    (void)state;
    const char *paths[2] = {in_folder("short"), in_folder("absent")};
    write_text("short", "0123456789");
    write_text("nothing", "");
    assert_int_equal(mkdir(in_folder("bare"), 0755), 0);
    assert_refused(paths, 1, 11, GYRE_EINVAL, "text: 10 bytes, at least 11 are needed (");
    assert_refused(paths, 2, 1, GYRE_EIO, "absent: No such file");
    assert_refused(paths, 0, 1, GYRE_EINVAL, "no path");
    assert_refused((const char *[]){in_folder("nothing")}, 1, 1, GYRE_EINVAL, "text: empty (");
    assert_refused((const char *[]){in_folder("bare")}, 1, 1, GYRE_EINVAL, "text: not a regular file (");
    assert_refused((const char *[]){in_folder("bare"), in_folder("nothing")}, 2, 1, GYRE_EINVAL, "and 1 more)");
    assert_refused((const char *[]){"/dev/null"}, 1, 1, GYRE_EIO, "neither a regular file nor a pipe");
    if (geteuid() == 0) return; /* root reads everything */
    assert_int_equal(chmod(in_folder("short"), 0), 0);
    assert_refused(paths, 1, 1, GYRE_EIO, "short: Permission denied");
    assert_int_equal(chmod(in_folder("bare"), 0), 0);
    assert_refused((const char *[]){in_folder("bare")}, 1, 1, GYRE_EIO, "bare: Permission denied");
    assert_int_equal(chmod(in_folder("bare"), 0755), 0);
}

static void test_reads_a_pipe(void **state) {
    (void)state;
    int ends[2];
    char name[32];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "piped", 5), 5);
    close(ends[1]);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    gyre_text text = open_text(name, GYRE_TEXT_SPLIT_ALL);
    assert_text(&text, "piped");
    gyre_text_free(&text);
    close(ends[0]);
}

static void test_reads_ids(void **state) {
    (void)state;
    gyre_text text;
    write_text("ids", "  0, 1\n31999\t007,,2 ");
    assert_ok(gyre_text_open_ids(&text, in_folder("ids"), 32000, 5, NULL));
    const int32_t wanted[5] = {0, 1, 31999, 7, 2};
    assert_int_equal(text.count, 5);
    assert_memory_equal(text.ids, wanted, sizeof wanted);
    gyre_text_free(&text);
}

static void test_refuses_ids(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        gyre_status status;
        uint64_t offset;
        const char *why;
    } cases[] = {
        {"1 2 x", 5, GYRE_EFORMAT, 4, "byte 4: neither a digit"},
        {"1 -2", 4, GYRE_EFORMAT, 2, "byte 2: neither a digit"},
        {"1 2.5", 5, GYRE_EFORMAT, 3, "byte 3: neither a digit"},
        {"1\0002", 3, GYRE_EFORMAT, 1, "byte 1: neither a digit"},
        {"5 10", 4, GYRE_EFORMAT, 2, "byte 2: an id that is not below 10"},
        {"99999999999999999999999999", 26, GYRE_EFORMAT, 0, "byte 0: an id that is not below 10"},
        {"", 0, GYRE_EINVAL, 0, "ids: empty"},
        {" ,\n", 3, GYRE_EINVAL, 0, "ids: empty"},
        {"1 2", 3, GYRE_EINVAL, 0, "ids: 2 tokens, at least 3 are needed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gyre_text text = {NULL, 7, 7, 7, 7};
        gyre_error err = {99, ""};
        write_file("ids", cases[i].bytes, cases[i].size);
        assert_int_equal(gyre_text_open_ids(&text, in_folder("ids"), 10, 3, &err), cases[i].status);
        if (!strstr(err.text, cases[i].why)) fail_msg("\"%s\", not \"%s\"", err.text, cases[i].why);
        assert_int_equal(err.offset, cases[i].offset);
        assert_int_equal(text.count, 7);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_takes_any_byte),
        cmocka_unit_test(test_walks_in_byte_order),
        cmocka_unit_test(test_splits_by_content),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_reads_a_pipe),
        cmocka_unit_test(test_reads_ids),
        cmocka_unit_test(test_refuses_ids),
    };
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
