/* test_tensor_store.c: the tensors of valid files: shapes, numbers, and nonfinite numbers. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "files/gguf.h"
#include "files/tensors/tensor_store.h"
#include "kernels/kernels.h"
#include "make_tensor_store.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

static const char three_types[] = "{\"b.w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
                                  "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                  "\"B\":{\"dtype\":\"BF16\",\"shape\":[1,1,1,3],\"data_offsets\":[20,26]},"
                                  "\"a.w\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[26,34]},"
                                  "\"five\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[34,38]},"
                                  "\"four\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[38,40]},"
                                  "\"none\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[40,40]}} ";

static const unsigned char three_bytes[40] = {
    0x00, 0x00, 0xc0, 0x3f, 0x00, 0x00, 0x00, 0xc0,                         /* a: 1.5, -2 */
    0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0xff, 0x7b, 0x00, 0x80, 0x55, 0x35, /* b.w */
    0x80, 0x3f, 0x40, 0xc0, 0x00, 0x00,                                     /* B: 1, -3, 0 */
    1,    2,    3,    4,    5,    6,    7,    8,                            /* a.w */
};
static const float b_w[6] = {1, -2, 0x1p-24f, 65504, -0.0f, 0x1.554p-2f};

static void check_shape(const gyre_file_tensor *t, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    assert_int_equal(t->rank, rank);
    if (t->shape[0] != a || t->shape[1] != b || t->shape[2] != c || t->shape[3] != d)
        fail_msg("%s: shape %d %d %d %d", t->name, (int)t->shape[0], (int)t->shape[1], (int)t->shape[2], (int)t->shape[3]);
}

static void check_unreadable(const gyre_tensor_store *store, const char *name, const char *type) {
    const gyre_file_tensor t = stored_named(store, name);
    float out = 7;
    gyre_error err = {0, ""};
    assert_int_equal(t.type, GYRE_STORED_OTHER);
    assert_string_equal(t.file_dtype, type);
    assert_int_equal(gyre_stored_read(gyre_kernels_select(), &t, &out, &err), GYRE_EUNSUPPORTED);
    if (!strstr(err.text, name) || !strstr(err.text, type) || !strstr(err.text, t.file)) fail_msg("%s", err.text);
    assert_true(out == 7);
}

/* The length of the header is chosen so that the data begins at an odd or an even offset. */
static void check_three(const char *path, int odd) {
    static const char *const names[] = {"B", "a", "a.w", "b.w", "five", "four", "none"};
    const gyre_kernels *kernels = gyre_kernels_select();
    gyre_tensor_store *store = stored_open(path);
    float out[6] = {0};
    assert_int_equal(gyre_tensor_store_count(store), 7);
    for (int i = 0; i < 7; i++)
        assert_string_equal(gyre_tensor_store_at(store, i).name, names[i]);
    const gyre_file_tensor a = stored_named(store, "a"), b = stored_named(store, "b.w"), c = stored_named(store, "B");
    assert_int_equal(a.offset % 2, odd);
    check_shape(&a, 1, 2, 1, 1, 1);
    check_shape(&b, 2, 2, 3, 1, 1);
    check_shape(&c, 4, 1, 1, 1, 3);
    assert_true(a.type == GYRE_STORED_F32 && b.type == GYRE_STORED_F16 && c.type == GYRE_STORED_BF16);
    assert_true(a.count == 2 && b.count == 6 && a.bytes == 8 && b.bytes == 12 && b.offset == a.offset + 8);
    assert_ok(gyre_stored_read(kernels, &a, out, NULL));
    assert_true(out[0] == 1.5f && out[1] == -2.0f);
    assert_ok(gyre_stored_read(kernels, &c, out, NULL));
    assert_true(out[0] == 1.0f && out[1] == -3.0f && out[2] == 0.0f);
    for (int i = 0; i < 2; i++) { /* readable again after its pages are released */
        assert_ok(gyre_stored_read(kernels, &b, out, NULL));
        assert_memory_equal(out, b_w, sizeof b_w);
        gyre_stored_release_pages(&b);
    }
    check_unreadable(store, "a.w", "I64");
    check_unreadable(store, "five", "F32");
    check_unreadable(store, "four", "F4");
    const gyre_file_tensor none = stored_named(store, "none");
    assert_ok(gyre_stored_read(kernels, &none, NULL, NULL));
    gyre_file_tensor kept = a;
    assert_int_equal(gyre_tensor_store_find(store, "aa", &kept), 0);
    assert_int_equal(kept.count, 2);
    assert_null(gyre_tensor_store_gguf(store));
    assert_string_equal(gyre_tensor_store_path(store), path);
    gyre_tensor_store_free(store);
}

static void test_one_file(void **state) {
    (void)state;
    for (int odd = 0; odd < 2; odd++) {
        char header[STORED_HEADER];
        snprintf(header, sizeof header, "%s%s", three_types, (sizeof three_types - 1) % 2 == (size_t)odd ? "" : " ");
        stored_safetensors("model.safetensors", header, three_bytes, sizeof three_bytes);
        check_three(in_folder("model.safetensors"), odd);
        check_three(folder, odd);
        check_three(in_folder(""), odd);
    }
    stored_clear();
}

/* -- hashes -- */
/* FNV-1a of "foobar" is published: 85944171f73967e8. */
static uint64_t fnv(uint64_t hash, const unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        hash ^= bytes[i];
        hash *= UINT64_C(1099511628211);
    }
    return hash;
}

static uint64_t hash_file(uint64_t hash, const char *name, int64_t *bytes) {
    unsigned char room[8192];
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    const size_t n = fread(room, 1, sizeof room, file);
    fclose(file);
    *bytes += (int64_t)n;
    return fnv(hash, room, n);
}

#define ONE(name, from) "\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[" from "]}"
static void write_shards(void) {
    const float x[3] = {1, 2, 3};
    static const char index[] = "{\"metadata\":{\"total_size\":12},\n\"weight_map\":{\n"
                                "\"z\":\"model-00001-of-00002.safetensors\",\n"
                                "\"a\":\"model-00002-of-00002.safetensors\",\n"
                                "\"m\":\"model-00001-of-00002.safetensors\"}}\n";
    stored_safetensors("model-00001-of-00002.safetensors", "{" ONE("z", "4,8") "," ONE("m", "0,4") "}", x, 8);
    stored_safetensors("model-00002-of-00002.safetensors", "{" ONE("a", "0,4") "}", x + 2, 4);
    write_file("model.safetensors.index.json", index, sizeof index - 1);
}

static void test_shards(void **state) {
    (void)state;
    static const char *const names[] = {"a", "m", "z"};
    static const float values[] = {3, 1, 2};
    const uint64_t start = UINT64_C(14695981039346656037);
    assert_true(fnv(start, (const unsigned char *)"foobar", 6) == UINT64_C(0x85944171f73967e8));
    write_shards();
    gyre_tensor_store *store = stored_open(folder);
    assert_int_equal(gyre_tensor_store_count(store), 3);
    for (int i = 0; i < 3; i++) {
        const gyre_file_tensor t = gyre_tensor_store_at(store, i);
        float out = 0;
        assert_string_equal(t.name, names[i]);
        assert_ok(gyre_stored_read(gyre_kernels_select(), &t, &out, NULL));
        assert_true(out == values[i]);
        assert_non_null(strstr(t.file, i == 0 ? "00002-of" : "00001-of"));
    }
    int64_t bytes = 0;
    uint64_t want = hash_file(start, "model-00001-of-00002.safetensors", &bytes), hash = 0;
    want = hash_file(want, "model-00002-of-00002.safetensors", &bytes);
    assert_ok(gyre_tensor_store_hash(store, &hash, NULL));
    assert_true(hash == want);
    assert_int_equal(gyre_tensor_store_bytes(store), bytes);
    gyre_tensor_store_free(store);
}

/* As in transformers: the single file has priority over the index. */
static void test_whole_before_index(void **state) {
    (void)state;
    const float x = 9;
    write_shards();
    stored_safetensors("model.safetensors", "{" ONE("whole", "0,4") "}", &x, 4);
    gyre_tensor_store *store = stored_open(folder);
    assert_int_equal(gyre_tensor_store_count(store), 1);
    gyre_tensor_store_free(store);
    stored_clear();
}

/* -- GGUF -- */
/* A tensor of bytes, which leaves the next one unaligned. */
static size_t put_bytes(made_gguf *made, const char *name, uint32_t rank, const uint64_t *dims, uint32_t type,
                        const void *bytes, size_t n) {
    const size_t at = made->data_bytes;
    made_info(made, name, rank, dims, type, at);
    memcpy(made->data + at, bytes, n);
    made->data_bytes += (n + made->alignment - 1) / made->alignment * made->alignment;
    return at;
}

static void test_gguf(void **state) {
    (void)state;
    static const uint64_t matrix[2] = {3, 2}, row[1] = {32}, wide[2] = {256, 2}, one[1] = {1}, deep[4] = {2, 1, 3, 1};
    made_gguf *made = made_begin(3);
    unsigned char blocks[2 * 210] = {0x00, 0x38, 3};
    made_string(made, "general.architecture", "llama");
    put_bytes(made, "token_embd.weight", 2, matrix, 1, three_bytes + 8, 12);
    put_bytes(made, "q8", 1, row, 8, blocks, 34);
    put_bytes(made, "q4", 1, row, 2, blocks, 18);
    put_bytes(made, "k4", 2, wide, 12, blocks, 288);
    put_bytes(made, "k5", 2, wide, 13, blocks, 352);
    put_bytes(made, "k6", 2, wide, 14, blocks + 3, 417); /* the zeros of another tensor, which is followed by one more */
    put_bytes(made, "brain", 1, one, 30, three_bytes + 20, 2);
    put_bytes(made, "whole", 1, one, 26, blocks, 4);
    put_bytes(made, "deep", 4, deep, 0, three_bytes, 24);
    put_bytes(made, "one", 1, (const uint64_t[]){128}, 41, blocks, 18);
    put_bytes(made, "iq", 1, (const uint64_t[]){256}, 17, blocks, 74);
    put_bytes(made, "later", 1, one, 4000000000u, blocks, 0);
    stored_gguf("model.bin", made);
    gyre_tensor_store *store = stored_open(in_folder("model.bin"));
    float out[512];
    static const struct {
        const char *name;
        gyre_stored_type type;
        int64_t count;
    } good[] = {{"token_embd.weight", GYRE_STORED_F16, 6},
                {"q8", GYRE_STORED_Q8_0, 32},
                {"q4", GYRE_STORED_Q4_0, 32},
                {"k4", GYRE_STORED_Q4_K, 512},
                {"k5", GYRE_STORED_Q5_K, 512},
                {"k6", GYRE_STORED_Q6_K, 512},
                {"iq", GYRE_STORED_IQ2_XS, 256},
                {"brain", GYRE_STORED_BF16, 1}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const gyre_file_tensor t = stored_named(store, good[i].name);
        assert_int_equal(t.type, good[i].type);
        assert_int_equal(t.count, good[i].count);
        assert_int_equal(t.bytes, gyre_stored_row_bytes(t.type, t.count));
        assert_string_equal(t.file_dtype, gyre_stored_type_name(t.type));
        assert_ok(gyre_stored_read(gyre_kernels_select(), &t, out, NULL));
    }
    const gyre_file_tensor embedding = stored_named(store, "token_embd.weight"), q8 = stored_named(store, "q8");
    check_shape(&embedding, 2, 2, 3, 1, 1); /* GGUF lists the fastest dimension first */
    assert_int_equal(embedding.offset, made->data_at);
    assert_ok(gyre_stored_read(gyre_kernels_select(), &embedding, out, NULL));
    assert_memory_equal(out, b_w, sizeof b_w);
    assert_ok(gyre_stored_read(gyre_kernels_select(), &q8, out, NULL));
    assert_true(out[0] == 1.5f && out[1] == 0);
    const gyre_file_tensor turned = stored_named(store, "deep");
    check_shape(&turned, 4, 1, 3, 1, 2);
    check_unreadable(store, "whole", "I32");
    check_unreadable(store, "one", "Q1_0");
    check_unreadable(store, "later", "type 4000000000");
    assert_non_null(gyre_tensor_store_gguf(store));
    assert_non_null(gyre_gguf_find_key(gyre_tensor_store_gguf(store), "general.architecture"));
    assert_int_equal(gyre_tensor_store_bytes(store), made->file_bytes);
    gyre_tensor_store_free(store);
    free(made);
    stored_clear();
}

/* -- numbers that are none -- */
enum { LONG = 5000 /* more than is checked at once */ };

/* One nonfinite number among many is reported with its position. */
static void check_bad(const char *type, size_t bytes, size_t index, unsigned bits, const char *what) {
    static unsigned char data[4 * LONG];
    static float out[LONG];
    char header[STORED_HEADER], element[64];
    gyre_error err = {0, ""};
    memset(data, 0, sizeof data);
    for (size_t i = 0; i < bytes; i++)
        data[index * bytes + i] = (unsigned char)(bits >> (8 * i));
    snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%zu]}}", type, LONG,
             bytes * LONG);
    const size_t at = stored_safetensors("model.safetensors", header, data, bytes * LONG);
    gyre_tensor_store *store = stored_open(folder);
    const gyre_file_tensor t = gyre_tensor_store_at(store, 0);
    out[0] = 777;
    assert_int_equal(gyre_stored_check_finite(gyre_kernels_select(), &t, &err), GYRE_EFORMAT);
    assert_int_equal(gyre_stored_read(gyre_kernels_select(), &t, out, &err), GYRE_EFORMAT);
    snprintf(element, sizeof element, "x: element %zu is %s", index, what);
    if (!strstr(err.text, element) || !strstr(err.text, "model.safetensors, byte ")) fail_msg("%s", err.text);
    assert_int_equal(err.offset, at + index * bytes);
    assert_true(out[0] == 777);
    gyre_tensor_store_free(store);
}

static void test_bad_numbers(void **state) {
    (void)state;
    static const size_t places[] = {0, 1, 2047, 2048, LONG - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        check_bad("F32", 4, places[i], 0x7fc00000, "not a number");
        check_bad("F32", 4, places[i], 0xff800000, "infinite");
        check_bad("F16", 2, places[i], 0x7c00, "infinite");
        check_bad("F16", 2, places[i], 0xfc01, "not a number");
        check_bad("BF16", 2, places[i], 0xff80, "infinite");
        check_bad("BF16", 2, places[i], 0x7f81, "not a number");
    }
    stored_clear();
}

/* All 65536 patterns as each scale of the third block: nonfinite where the exponent bits are all ones. */
static void check_scales(uint32_t ggml, uint64_t elements, size_t bytes, size_t scale, const char *what) {
    made_gguf *made = made_begin(3);
    static unsigned char blocks[4 * 210];
    const uint64_t dims[2] = {elements, 4};
    memset(blocks, 0, sizeof blocks);
    const float before[1] = {1};
    made_tensor(made, "before", before, 1);
    const size_t relative = put_bytes(made, "x", 2, dims, ggml, blocks, 4 * bytes);
    stored_gguf("model.gguf", made);
    gyre_tensor_store *store = stored_open(in_folder("model.gguf"));
    gyre_file_tensor t = stored_named(store, "x");
    for (unsigned bits = 0; bits < 65536; bits += 37) {
        gyre_error err = {0, ""};
        char text[160];
        blocks[2 * bytes + scale] = (unsigned char)bits;
        blocks[2 * bytes + scale + 1] = (unsigned char)(bits >> 8);
        t.data = blocks;
        const gyre_status status = gyre_stored_check_finite(gyre_kernels_select(), &t, &err);
        assert_int_equal(status, (bits >> 10 & 31) == 31 ? GYRE_EFORMAT : GYRE_OK);
        if (status == GYRE_OK) continue;
        snprintf(text, sizeof text, "x: %s 2 is %s (%s", what, bits & 1023 ? "not a number" : "infinite", folder);
        if (!strstr(err.text, text)) fail_msg("%s", err.text);
        assert_int_equal(err.offset, made->data_at + relative + 2 * bytes + scale);
    }
    gyre_tensor_store_free(store);
    free(made);
}

static void test_bad_scales(void **state) {
    (void)state;
    check_scales(8, 32, 34, 0, "the scale of block");
    check_scales(2, 32, 18, 0, "the scale of block");
    check_scales(12, 256, 144, 0, "the scale of block");
    check_scales(12, 256, 144, 2, "the least of block");
    check_scales(13, 256, 176, 0, "the scale of block");
    check_scales(13, 256, 176, 2, "the least of block");
    check_scales(14, 256, 210, 208, "the scale of block");
    stored_clear();
}

/* A file that loses the end of its last page raises no SIGBUS: the page then ends in zeros. */
static void test_changed_files(void **state) {
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}} ";
    char path[512], next[512];
    for (int change = 0; change < 4; change++) {
        stored_clear();
        const size_t at = stored_safetensors("m.safetensors", header, three_bytes, 8);
        stored_safetensors("next", header, three_bytes + 8, 8);
        snprintf(path, sizeof path, "%s", in_folder("m.safetensors"));
        snprintf(next, sizeof next, "%s", in_folder("next"));
        const struct timespec old[2] = {{1000, 0}, {1000, 0}};
        assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
        gyre_tensor_store *store = stored_open(path);
        gyre_error err = {0, ""};
        uint64_t hash = 7;
        assert_ok(gyre_tensor_store_check(store, &err));
        if (change == 0) assert_int_equal(truncate(path, (off_t)at + 4), 0);
        if (change == 1) assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0); /* the same time again */
        if (change == 2) {                                                       /* a number is written over in place */
            const int fd = open(path, O_WRONLY);
            assert_true(fd >= 0 && pwrite(fd, three_bytes + 8, 4, (off_t)at) == 4 && close(fd) == 0);
        }
        if (change == 3) assert_int_equal(rename(next, path), 0); /* the mapping keeps the old file, which is whole */
        const gyre_status wanted = change == 0 || change == 2 ? GYRE_EIO : GYRE_OK;
        assert_int_equal(gyre_tensor_store_check(store, &err), wanted);
        assert_int_equal(gyre_tensor_store_hash(store, &hash, &err), wanted);
        if (wanted && (!strstr(err.text, path) || !strstr(err.text, "changed while it was read") || hash != 7))
            fail_msg("%s", err.text);
        gyre_tensor_store_free(store);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changed_files),      cmocka_unit_test(test_one_file), cmocka_unit_test(test_shards),
        cmocka_unit_test(test_whole_before_index), cmocka_unit_test(test_gguf),     cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_bad_scales),
    };
    return cmocka_run_group_tests(tests, make_empty_folder, stored_teardown);
}
