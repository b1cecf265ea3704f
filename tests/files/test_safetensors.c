/* test_safetensors.c: valid and invalid files, built byte by byte. */
#include "files/tensors/safetensors.h"
#include "support.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/gyre-safetensors-XXXXXX";
static char path[sizeof folder + 16];

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_bytes(const void *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* Writes exactly this header and these bytes of data to `out`. Returns the size. */
static size_t build(unsigned char *out, const char *header, const void *data, size_t n) {
    const size_t length = strlen(header);
    for (size_t i = 0; i < 8; i++)
        out[i] = (unsigned char)(length >> (8 * i));
    memcpy(out + 8, header, length);
    if (n > 0) memcpy(out + 8 + length, data, n);
    return 8 + length + n;
}

static void write_file(const char *header, const void *data, size_t n) {
    unsigned char bytes[4096];
    assert_true(strlen(header) + n + 8 <= sizeof bytes);
    write_bytes(bytes, build(bytes, header, data, n));
}

static void assert_refused(gyre_status wanted, const char *text) {
    gyre_safetensors *file = NULL;
    gyre_error err = {7, ""};
    const gyre_status status = gyre_safetensors_open(&file, path, &err);
    if (status != wanted || !strstr(err.text, text) || !strstr(err.text, path))
        fail_msg("status %d, \"%s\"; wanted %d and \"%s\"", (int)status, err.text, (int)wanted, text);
    assert_null(file);
}

static gyre_safetensors *open_file(void) {
    gyre_safetensors *file = NULL;
    gyre_error err = {0, ""};
    if (gyre_safetensors_open(&file, path, &err) != GYRE_OK) fail_msg("%s", err.text);
    return file;
}

/* -- reading -- */
static const char two[] = "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]},"
                          "\"__metadata__\":{\"format\":\"pt\"},"
                          "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}";

static void test_reads_by_name(void **state) {
    (void)state;
    const float data[3] = {1.5f, -2.0f, 3.0f};
    float out[2] = {0, 0};
    const int64_t shape[2] = {2, 1};
    gyre_safetensors_view stored;
    write_file(two, data, sizeof data);
    gyre_safetensors *file = open_file();
    assert_int_equal(gyre_safetensors_count(file), 2);
    assert_string_equal(gyre_safetensors_name(file, 0), "a");
    assert_string_equal(gyre_safetensors_name(file, 1), "b");
    assert_ok(gyre_safetensors_read(file, "b", shape, 2, out, NULL));
    assert_memory_equal(out, data + 1, sizeof out);
    assert_ok(gyre_safetensors_read(file, "a", NULL, 0, out, NULL));
    assert_true(out[0] == 1.5f);
    assert_ok(gyre_safetensors_find(file, "b", &stored, NULL));
    assert_int_equal(stored.rank, 2);
    assert_int_equal(stored.count, 2);
    gyre_safetensors_free(file);
}

/* The header's length is odd, so every element is unaligned. */
static void test_reads_unaligned(void **state) {
    (void)state;
    static const struct {
        gyre_dtype dtype;
        const char *name;
    } types[] = {{GYRE_DTYPE_F64, "F64"}, {GYRE_DTYPE_F32, "F32"}, {GYRE_DTYPE_F16, "F16"}, {GYRE_DTYPE_BF16, "BF16"}};
    enum { COUNT = 9 };
    for (size_t t = 0; t < 4; t++) {
        unsigned char data[8 * COUNT];
        char header[256];
        float out[COUNT];
        const int64_t shape[1] = {COUNT};
        const size_t bytes = COUNT * gyre_dtype_size(types[t].dtype);
        for (size_t i = 0; i < COUNT; i++)
            test_put(data, types[t].dtype, i, 0.1 * (double)i - 0.3);
        snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[9],\"data_offsets\":[0,%zu]}}", types[t].name,
                 bytes);
        if (strlen(header) % 2 == 0) strcat(header, " ");
        write_file(header, data, bytes);
        gyre_safetensors *file = open_file();
        assert_ok(gyre_safetensors_read(file, "x", shape, 1, out, NULL));
        for (size_t i = 0; i < COUNT; i++)
            assert_true(out[i] == (float)test_get(data, types[t].dtype, i));
        gyre_safetensors_free(file);
    }
}

static void test_refuses_tensors(void **state) {
    (void)state;
    const float bad[2] = {0.0f, NAN};
    const float infinite[2] = {-INFINITY, 0.0f};
    const char *const header = "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    float out[2] = {5, 5};
    gyre_safetensors_view stored;
    gyre_error err;
    const int64_t right[1] = {2}, wrong[1] = {3}, matrix[2] = {2, 1};
    write_file(header, bad, sizeof bad);
    gyre_safetensors *file = open_file();
    assert_int_equal(gyre_safetensors_read(file, "x", right, 1, out, &err), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "x: element 1 is not a number"));
    assert_int_equal(gyre_safetensors_read(file, "x", wrong, 1, out, &err), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "x: shape [2], not [3]"));
    assert_int_equal(gyre_safetensors_read(file, "x", matrix, 2, out, &err), GYRE_EFORMAT);
    assert_int_equal(gyre_safetensors_find(file, "y", &stored, &err), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "no tensor y"));
    gyre_safetensors_free(file);
    write_file(header, infinite, sizeof infinite);
    file = open_file();
    assert_int_equal(gyre_safetensors_read(file, "x", right, 1, out, &err), GYRE_EFORMAT);
    assert_non_null(strstr(err.text, "infinite"));
    gyre_safetensors_free(file);
    write_file("{\"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]},"
               "\"u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
               infinite, sizeof infinite);
    file = open_file();
    assert_int_equal(gyre_safetensors_read(file, "i", (int64_t[1]){1}, 1, out, &err), GYRE_EFORMAT);
    assert_int_equal(gyre_safetensors_find(file, "u", &stored, &err), GYRE_EUNSUPPORTED);
    gyre_safetensors_free(file);
}

#define X(dtype, shape, offsets) "{\"x\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define P(a, b)                                                                                                             \
    "{\"p\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" a "},"                                                      \
    "\"q\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" b "}}"

/* Each with 8 bytes of data. */
static void test_refuses_headers(void **state) {
    (void)state;
    static const struct {
        const char *header, *text;
    } cases[] = {
        {"", "begin with {"},
        {"[]", "begin with {"},
        {" {}", "begin with {"},
        {"{", "header"},
        {"{}x", "header"},
        {"{}", "8 bytes after the last tensor"},
        {"{\"x\":3}", "x: no object"},
        {"{\"__metadata__\":3}", "__metadata__"},
        {"{\"x\":{}}", "x: no dtype"},
        {X("3", "[2]", "[0,8]"), "x: no dtype"},
        {X("\"F33\"", "[2]", "[0,8]"), "\"F33\" is unknown"},
        {X("\"F32\"", "2", "[0,8]"), "x: no shape"},
        {X("\"F32\"", "[2.0]", "[0,8]"), "shape[0]"},
        {X("\"F32\"", "[-2]", "[0,8]"), "shape[0]"},
        {X("\"F32\"", "[99999999999999999999]", "[0,8]"), "header"},
        {X("\"F32\"", "[2]", "8"), "x: no data_offsets"},
        {X("\"F32\"", "[2]", "[0]"), "x: no data_offsets"},
        {X("\"F32\"", "[2]", "[0,8,8]"), "x: no data_offsets"},
        {X("\"F32\"", "[2]", "[0,8.0]"), "x: no data_offsets"},
        {X("\"F32\"", "[2]", "[-8,0]"), "not within"},
        {X("\"F32\"", "[2]", "[8,0]"), "not within"},
        {X("\"F32\"", "[3]", "[0,12]"), "not within"},
        {X("\"F32\"", "[1]", "[0,9223372036854775807]"), "not within"},
        {X("\"F32\"", "[1]", "[0,8]"), "do not fit"},
        {X("\"F32\"", "[3]", "[0,8]"), "do not fit"},
        {X("\"F16\"", "[2]", "[0,8]"), "do not fit"},
        {X("\"F32\"", "[1]", "[0,7]"), "do not fit"},
        {X("\"F32\"", "[4611686018427387906]", "[0,8]"), "do not fit"},
        {X("\"F32\"", "[4611686018427387904,4]", "[0,0]"), "overflows"},
        {X("\"F32\"", "[4294967296,4294967296]", "[0,0]"), "overflows"},
        {X("\"F32\"", "[0,9223372036854775807]", "[0,0]"), "overflows"},
        {P("[0,4]", "[0,4]"), "overlaps"},
        {P("[0,4]", "[2,6]"), "overlaps"},
        {P("[4,8]", "[3,7]"), "gap of 3 bytes"},
        {P("[4,8]", "[4,8]"), "gap of 4 bytes"},
        {X("\"F32\"", "[1]", "[0,4]"), "4 bytes after"},
        {X("\"F32\"", "[1]", "[4,8]"), "x: a gap of 4 bytes"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         "duplicate"},
    };
    const double data = 0.0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(cases[i].header, &data, sizeof data);
        assert_refused(GYRE_EFORMAT, cases[i].text);
    }
    write_file(X("\"F32\"", "[1,1,1,1,2]", "[0,8]"), &data, sizeof data); /* measured, not read */
    gyre_safetensors_view stored;
    gyre_error err;
    gyre_safetensors *file = open_file();
    assert_int_equal(gyre_safetensors_find(file, "x", &stored, &err), GYRE_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "5 dimensions"));
    gyre_safetensors_free(file);
}

static void test_refuses_header_sizes(void **state) {
    (void)state;
    static const uint64_t sizes[] = {3, 100, 100000001, UINT32_MAX, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
    unsigned char bytes[10] = {0, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t b = 0; b < 8; b++)
            bytes[b] = (unsigned char)(sizes[i] >> (8 * b));
        write_bytes(bytes, sizeof bytes);
        assert_refused(GYRE_EFORMAT, "a header of");
    }
    write_bytes(bytes, 0);
    assert_refused(GYRE_EFORMAT, "empty");
    bytes[0] = 2;
    memset(bytes + 1, 0, 7);
    write_bytes(bytes, sizeof bytes);
    gyre_safetensors *file = open_file(); /* no tensors and no data: valid */
    assert_int_equal(gyre_safetensors_count(file), 0);
    gyre_safetensors_free(file);
}

static void test_refuses_every_truncation(void **state) {
    (void)state;
    const float data[3] = {1.0f, 2.0f, 3.0f};
    unsigned char bytes[1024];
    const size_t size = build(bytes, two, data, sizeof data);
    for (size_t n = 0; n < size; n++) {
        write_bytes(bytes, n);
        assert_refused(GYRE_EFORMAT, "");
    }
    bytes[size] = 0;
    write_bytes(bytes, size + 1);
    assert_refused(GYRE_EFORMAT, "1 bytes after");
}

/* Whatever opens can be read without errors; sanitizers watch. */
static void read_all(const gyre_safetensors *file) {
    gyre_safetensors_view stored;
    for (int64_t i = 0; i < gyre_safetensors_count(file); i++) {
        const char *name = gyre_safetensors_name(file, i);
        if (gyre_safetensors_find(file, name, &stored, NULL) != GYRE_OK) continue;
        float *out = malloc((size_t)stored.count * sizeof *out + 1);
        assert_non_null(out);
        (void)!gyre_safetensors_read(file, name, stored.shape, stored.rank, out, NULL);
        free(out);
    }
}

static void test_survives_flipped_bytes(void **state) {
    (void)state;
    const float data[3] = {1.0f, 2.0f, 3.0f};
    unsigned char bytes[1024];
    test_random random = {20};
    int opened = 0;
    for (int round = 0; round < 2000; round++) {
        const size_t size = build(bytes, two, data, sizeof data);
        for (uint64_t flips = 1 + test_next(&random) % 3; flips > 0; flips--)
            bytes[test_next(&random) % size] ^= (unsigned char)(1 + test_next(&random) % 255);
        write_bytes(bytes, size);
        gyre_safetensors *file = NULL;
        if (gyre_safetensors_open(&file, path, NULL) != GYRE_OK) continue;
        opened++;
        read_all(file);
        gyre_safetensors_free(file);
    }
    assert_in_range(opened, 1, 1999); /* changed bytes in names and data are no errors */
}

static void test_refuses_paths_that_are_not_files(void **state) {
    (void)state;
    gyre_safetensors *file = NULL;
    gyre_error err;
    assert_int_equal(gyre_safetensors_open(&file, folder, &err), GYRE_EIO);
    assert_non_null(strstr(err.text, "not a regular file"));
    unlink(path);
    assert_int_equal(gyre_safetensors_open(&file, path, &err), GYRE_EIO);
    assert_non_null(strstr(err.text, strerror(ENOENT)));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(gyre_safetensors_open(&file, path, &err), GYRE_EIO);
    unlink(path);
}

/* -- writing -- */
static void test_written_files_read_back(void **state) {
    (void)state;
    enum { ROWS = 3, COLUMNS = 4099 }; /* more than one block */
    static float matrix[ROWS * COLUMNS], back[ROWS * COLUMNS];
    const float vector[2] = {-0.0f, 1e-40f};
    static const gyre_dtype types[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16, GYRE_DTYPE_F64};
    const gyre_safetensors_input tensors[] = {{"z.matrix", 2, {ROWS, COLUMNS}, matrix, 0}, {"a.vector", 1, {2}, vector, 0}};
    test_random random = {1};
    test_fill(&random, matrix, ROWS * COLUMNS);
    for (size_t t = 0; t < 4; t++) {
        assert_ok(gyre_safetensors_write(path, tensors, 2, types[t], NULL));
        gyre_safetensors *file = open_file();
        assert_ok(gyre_safetensors_read(file, "z.matrix", tensors[0].shape, 2, back, NULL));
        for (size_t i = 0; i < ROWS * COLUMNS; i++) {
            double wanted;
            test_put(&wanted, types[t], 0, (double)matrix[i]);
            assert_true(back[i] == (float)test_get(&wanted, types[t], 0));
        }
        assert_ok(gyre_safetensors_read(file, "a.vector", tensors[1].shape, 1, back, NULL));
        if (types[t] == GYRE_DTYPE_F32) assert_memory_equal(back, vector, sizeof vector);
        gyre_safetensors_free(file);
    }
}

/* Byte for byte as the format requires, with ties rounded to even. */
static void test_exact_bytes(void **state) {
    (void)state;
    const float ties[4] = {1.00390625f, 1.01171875f, -1.0f, 0x1.fep127f}; /* 1 + 2^-8, 1 + 3 * 2^-8 */
    const unsigned char data[8] = {0x80, 0x3f, 0x82, 0x3f, 0x80, 0xbf, 0x7f, 0x7f};
    const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},\"t\":{\"dtype\":\"BF16\",\"shape\":[2,2],"
                          "\"data_offsets\":[0,8]}}";
    const gyre_safetensors_input tensor = {"t", 2, {2, 2}, ties, 0};
    unsigned char bytes[512];
    assert_ok(gyre_safetensors_write(path, &tensor, 1, GYRE_DTYPE_BF16, NULL));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, sizeof bytes, file), padded = (sizeof header - 1 + 7) / 8 * 8;
    fclose(file);
    assert_int_equal(size, 8 + padded + sizeof data);
    assert_int_equal(bytes[0], padded);
    assert_memory_equal(bytes + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < padded; i++)
        assert_int_equal(bytes[8 + i], ' ');
    assert_memory_equal(bytes + 8 + padded, data, sizeof data);
}

static void test_refuses_to_write_nonfinite_numbers(void **state) {
    (void)state;
    const float values[3] = {1.0f, 65504.0f, 65520.0f};
    const float bad[1] = {NAN};
    gyre_error err;
    gyre_safetensors_input tensor = {"w", 1, {2}, values, 0};
    assert_ok(gyre_safetensors_write(path, &tensor, 1, GYRE_DTYPE_F16, &err));
    tensor.shape[0] = 3;
    assert_int_equal(gyre_safetensors_write(path, &tensor, 1, GYRE_DTYPE_F16, &err), GYRE_EINVAL);
    assert_non_null(strstr(err.text, "w: element 2, 65520, is not finite in F16"));
    assert_ok(gyre_safetensors_write(path, &tensor, 1, GYRE_DTYPE_BF16, &err));
    tensor = (gyre_safetensors_input){"w", 1, {1}, bad, 0};
    assert_int_equal(gyre_safetensors_write(path, &tensor, 1, GYRE_DTYPE_F32, &err), GYRE_EINVAL);
    assert_int_equal(gyre_safetensors_write(path, &tensor, 1, GYRE_DTYPE_I32, &err), GYRE_EDTYPE);
}

static void test_full_disk(void **state) {
    (void)state;
    const float value = 1.0f;
    const gyre_safetensors_input tensor = {"w", 1, {1}, &value, 0};
    gyre_error err;
    struct stat info;
    if (stat("/dev/full", &info) != 0 || !S_ISCHR(info.st_mode)) skip();
    assert_int_equal(gyre_safetensors_write("/dev/full", &tensor, 1, GYRE_DTYPE_F32, &err), GYRE_EIO);
    assert_non_null(strstr(err.text, strerror(ENOSPC)));
    assert_int_equal(gyre_safetensors_write("/nowhere/at/all", &tensor, 1, GYRE_DTYPE_F32, &err), GYRE_EIO);
    assert_non_null(strstr(err.text, strerror(ENOENT)));
}

/* -- no memory -- */
static int64_t allocations_left;

static void *failing_malloc(size_t bytes) {
    return allocations_left-- > 0 ? malloc(bytes) : NULL;
}

static void test_every_json_allocation_may_fail(void **state) {
    (void)state;
    const float data[3] = {1.0f, 2.0f, 3.0f};
    const gyre_safetensors_input tensor = {"w", 1, {3}, data, 0};
    gyre_status status;
    json_set_alloc_funcs(failing_malloc, free);
    int64_t n = 0;
    do {
        allocations_left = n++;
        status = gyre_safetensors_write(path, &tensor, 1, GYRE_DTYPE_F32, NULL);
    } while (status == GYRE_ENOMEM);
    assert_int_equal(status, GYRE_OK);
    assert_true(n > 5);
    n = 0;
    do {
        gyre_safetensors *file = NULL;
        allocations_left = n++;
        status = gyre_safetensors_open(&file, path, NULL);
        gyre_safetensors_free(file);
    } while (status != GYRE_OK);
    json_set_alloc_funcs(malloc, free);
    assert_true(n > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_by_name),
        cmocka_unit_test(test_reads_unaligned),
        cmocka_unit_test(test_refuses_tensors),
        cmocka_unit_test(test_refuses_headers),
        cmocka_unit_test(test_refuses_header_sizes),
        cmocka_unit_test(test_refuses_every_truncation),
        cmocka_unit_test(test_survives_flipped_bytes),
        cmocka_unit_test(test_refuses_paths_that_are_not_files),
        cmocka_unit_test(test_written_files_read_back),
        cmocka_unit_test(test_exact_bytes),
        cmocka_unit_test(test_refuses_to_write_nonfinite_numbers),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_every_json_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
