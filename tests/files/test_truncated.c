/* test_truncated.c: a config.json or GGUF truncated anywhere is an error with a reason; a GGUF that ends within tensors
 * without positions is read, with a warning.  Nothing past its end is read: every prefix is in memory of exactly its size,
 * where AddressSanitizer detects reads past it. */
#include "gyre/gyre_model.h"
#include "support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- a prefix -- */
typedef struct sample {
    const char *name;
    gyre_profile profile; /* that can read it */
    const unsigned char *bytes;
    size_t size;
    int warns; /* 1: a prefix that is read has a warning */
} sample;

static gyre_status parse_exactly(gyre_reading **out, const sample *f, size_t size, gyre_error *err) {
    unsigned char *exact = malloc(size ? size : 1);
    assert_non_null(exact);
    memcpy(exact, f->bytes, size);
    const gyre_status status =
        gyre_reading_parse(out, exact, size, GYRE_ARGS(gyre_reading_options, .profile = f->profile, .name = "cut"), err);
    free(exact);
    return status;
}

static int same_groups(const gyre_reading *a, const gyre_reading *b) {
    if (a->groups_count != b->groups_count) return 0;
    for (int64_t i = 0; i < a->groups_count; i++) {
        const gyre_layer_reading *x = a->groups[i], *y = b->groups[i];
        if (strcmp(x->name, y->name) != 0 || x->layers_count != y->layers_count) return 0;
        if (x->config.kind != y->config.kind || x->config.head_dim != y->config.head_dim) return 0;
        if (x->config.rope.base != y->config.rope.base || x->config.rope.factor != y->config.rope.factor) return 0;
        if (x->config.trained_length != y->config.trained_length || x->window != y->window) return 0;
    }
    return 1;
}

/* Returns 1 if it is read, with the result of the whole file; 0 if it is refused with a message. */
static int check_prefix(const sample *f, size_t size, const gyre_reading *whole) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    const gyre_status status = parse_exactly(&reading, f, size, &err);
    if (status == GYRE_OK) {
        if (!same_groups(reading, whole)) fail_msg("%s, %zu bytes of it: read as another model", f->name, size);
        if (f->warns && reading->warnings_count != whole->warnings_count + 1)
            fail_msg("%s, %zu bytes of it: read without a warning", f->name, size);
        gyre_reading_free(reading);
        return 1;
    }
    if (reading) fail_msg("%s, %zu bytes of it: failed, yet left a reading", f->name, size);
    if (status != GYRE_EFORMAT && status != GYRE_EUNSUPPORTED)
        fail_msg("%s, %zu bytes of it: status %d (%s)", f->name, size, (int)status, err.text);
    if (err.text[0] == '\0') fail_msg("%s, %zu bytes of it: refused without a word", f->name, size);
    return 0;
}

/* Every prefix up to the first `every` bytes, then every seventh, and the whole. A prefix shorter than `needed` must be
 * refused. */
static void check_prefixes(const sample *f, size_t needed) {
    const size_t every = 4096;
    gyre_reading *whole = NULL;
    gyre_error err = {0, ""};
    if (parse_exactly(&whole, f, f->size, &err) != GYRE_OK) fail_msg("%s: %s", f->name, err.text);
    for (size_t n = 0; n < f->size; n = n < every || n + 7 > f->size - 1 ? n + 1 : n + 7)
        if (check_prefix(f, n, whole) && n < needed) fail_msg("%s: read from %zu of %zu bytes", f->name, n, needed);
    gyre_reading_free(whole);
}

/* -- config.json -- */
static unsigned char *load(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be read", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long end = ftell(file);
    assert_true(end > 0);
    rewind(file);
    unsigned char *bytes = malloc((size_t)end);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)end, file), (size_t)end);
    fclose(file);
    *size = (size_t)end;
    return bytes;
}

static void test_configs(void **state) {
    (void)state;
    int files = 0;
    DIR *folder = opendir(GYRE_TEST_DATA "/configs");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".json") != 0) continue;
        char path[1024];
        size_t size;
        assert_true((size_t)snprintf(path, sizeof path, "%s/configs/%s", GYRE_TEST_DATA, entry->d_name) < sizeof path);
        unsigned char *bytes = load(path, &size);
        size_t needed = size; /* up to the last brace; white space after it may be missing */
        while (needed > 0 && bytes[needed - 1] != '}')
            needed--;
        const sample f = {entry->d_name, GYRE_PROFILE_DEFAULT, bytes, size, 0};
        check_prefixes(&f, needed);
        free(bytes);
        files++;
    }
    closedir(folder);
    assert_true(files > 100);
}

/* -- GGUF -- */
/* Little endian on every processor: magic, version, counts, keys, tensors, padding, data. */
enum { AS_U32 = 4, AS_F32 = 6, AS_BOOL = 7, AS_STRING = 8, AS_ARRAY = 9 };
typedef struct gguf {
    unsigned char bytes[16384];
    size_t size;
    size_t needed; /* bytes, without which no reading is possible; 0 = all */
} gguf;

static void put(gguf *g, uint64_t value, size_t bytes) {
    assert_true(g->size + bytes <= sizeof g->bytes);
    for (size_t i = 0; i < bytes; i++)
        g->bytes[g->size++] = (unsigned char)(value >> (8 * i));
}
static void put_f32(gguf *g, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(g, bits, 4);
}
static void put_string(gguf *g, const char *text) {
    put(g, strlen(text), 8);
    for (; *text; text++)
        put(g, (unsigned char)*text, 1);
}
static void put_key(gguf *g, const char *key, uint32_t type) {
    put_string(g, key);
    put(g, type, 4);
}
static void key_u32(gguf *g, const char *key, uint32_t value) {
    put_key(g, key, AS_U32);
    put(g, value, 4);
}
static void key_f32(gguf *g, const char *key, float value) {
    put_key(g, key, AS_F32);
    put_f32(g, value);
}
static void key_text(gguf *g, const char *key, const char *text) {
    put_key(g, key, AS_STRING);
    put_string(g, text);
}
static void key_texts(gguf *g, const char *key, uint64_t count) {
    put_key(g, key, AS_ARRAY);
    put(g, AS_STRING, 4);
    put(g, count, 8);
    for (uint64_t i = 0; i < count; i++)
        put_string(g, i % 3 ? "token" : "");
}
static void begin(gguf *g, uint32_t version, uint64_t tensors, uint64_t keys) {
    g->size = 0, g->needed = 0;
    put(g, 0x46554747, 4); /* "GGUF" */
    put(g, version, 4);
    put(g, tensors, 8);
    put(g, keys, 8);
}
static void tensor_f32(gguf *g, const char *name, uint64_t count, uint64_t offset) {
    put_string(g, name);
    put(g, 1, 4);
    put(g, count, 8);
    put(g, 0, 4); /* F32 */
    put(g, offset, 8);
}
/* `count` numbers from the next multiple of `alignment` on. */
static void data_f32(gguf *g, size_t alignment, size_t count, float from, float step) {
    while (g->size % alignment)
        put(g, 0, 1);
    for (size_t i = 0; i < count; i++)
        put_f32(g, from + step * (float)i);
}

/* A Llama 3.1 as llama.cpp's converter writes it, with the scaling as a tensor of divisors. */
static void make_llama(gguf *g, uint32_t version) {
    begin(g, version, 1, 10);
    key_text(g, "general.architecture", "llama");
    key_u32(g, "llama.block_count", 2);
    key_u32(g, "llama.context_length", 131072);
    key_u32(g, "llama.embedding_length", 256);
    key_u32(g, "llama.attention.head_count", 4);
    key_u32(g, "llama.rope.dimension_count", 64);
    key_f32(g, "llama.rope.freq_base", 500000.0f);
    key_texts(g, "tokenizer.ggml.tokens", 40);
    put_key(g, "tokenizer.ggml.add_bos_token", AS_BOOL);
    put(g, 1, 1);
    key_u32(g, "general.alignment", 64);
    tensor_f32(g, "rope_freqs.weight", 32, 0);
    data_f32(g, 64, 32, 1.0f, 0.2f);
}

static void make_yarn(gguf *g, uint32_t version) {
    begin(g, version, 1, 12);
    key_text(g, "general.architecture", "qwen2");
    key_u32(g, "qwen2.block_count", 1);
    key_u32(g, "qwen2.context_length", 131072);
    key_u32(g, "qwen2.embedding_length", 512);
    key_u32(g, "qwen2.attention.head_count", 4);
    key_f32(g, "qwen2.rope.freq_base", 1000000.0f);
    key_text(g, "qwen2.rope.scaling.type", "yarn");
    key_f32(g, "qwen2.rope.scaling.factor", 4.0f);
    key_u32(g, "qwen2.rope.scaling.original_context_length", 32768);
    key_texts(g, "tokenizer.ggml.merges", 25);
    key_text(g, "general.name", "a small one");
    put_key(g, "general.file_type", AS_U32);
    put(g, 0, 4);
    tensor_f32(g, "output_norm.weight", 512, 0);
    g->needed = g->size; /* no position comes from its numbers */
    data_f32(g, 32, 512, 1.0f, 0.0f);
}

static void make_longrope(gguf *g, uint32_t version) {
    begin(g, version, 2, 9);
    key_text(g, "general.architecture", "phi3");
    key_u32(g, "phi3.block_count", 1);
    key_u32(g, "phi3.context_length", 131072);
    key_u32(g, "phi3.embedding_length", 384);
    key_u32(g, "phi3.attention.head_count", 4);
    key_u32(g, "phi3.rope.dimension_count", 96);
    key_u32(g, "phi3.rope.scaling.original_context_length", 4096);
    key_f32(g, "phi3.rope.scaling.attn_factor", 1.190238f);
    key_text(g, "phi3.rope.scaling.type", "longrope");
    tensor_f32(g, "rope_factors_long.weight", 48, 0);
    tensor_f32(g, "rope_factors_short.weight", 48, 192);
    data_f32(g, 32, 48, 1.0f, 1.25f);
    g->needed = g->size; /* the longest context takes the first list */
    data_f32(g, 32, 48, 1.0f, 0.02f);
}

/* No tensor: the aligned start of the data is the end of the file. */
static void make_alibi(gguf *g, uint32_t version) {
    begin(g, version, 0, 6);
    key_text(g, "general.architecture", "bloom");
    key_u32(g, "bloom.block_count", 1);
    key_u32(g, "bloom.context_length", 2048);
    key_u32(g, "bloom.embedding_length", 512);
    key_u32(g, "bloom.attention.head_count", 4);
    key_f32(g, "bloom.attention.max_alibi_bias", 8.0f);
}

static void check_gguf(const char *name, void (*make)(gguf *, uint32_t)) {
    gguf *g = malloc(sizeof *g);
    assert_non_null(g);
    for (uint32_t version = 2; version <= 3; version++) {
        char label[64];
        make(g, version);
        snprintf(label, sizeof label, "%s, version %u", name, (unsigned)version);
        const sample f = {label, GYRE_PROFILE_DEFAULT, g->bytes, g->size, 1};
        check_prefixes(&f, g->needed ? g->needed : g->size);
    }
    free(g);
}

static void test_gguf(void **state) {
    (void)state;
    check_gguf("llama with rope_freqs", make_llama);
    check_gguf("qwen2 under YaRN", make_yarn);
    check_gguf("phi3 under LongRoPE", make_longrope);
    check_gguf("bloom", make_alibi);
}

/* Each byte of a small file replaced: the file is read or refused, without reads out of bounds. */
static void test_gguf_flipped(void **state) {
    (void)state;
    static const unsigned char masks[] = {0x01, 0x80, 0xff};
    gguf *g = malloc(sizeof *g);
    assert_non_null(g);
    make_llama(g, 3);
    const sample f = {"flipped", GYRE_PROFILE_DEFAULT, g->bytes, g->size, 0};
    for (size_t i = 0; i < g->size; i++)
        for (size_t m = 0; m < sizeof masks; m++) {
            gyre_reading *reading = NULL;
            gyre_error err = {0, ""};
            g->bytes[i] ^= masks[m];
            const gyre_status status = parse_exactly(&reading, &f, g->size, &err);
            g->bytes[i] ^= masks[m];
            if (status == GYRE_OK)
                gyre_reading_free(reading);
            else if (err.text[0] == '\0' || status == GYRE_ENOMEM)
                fail_msg("byte %zu ^ %02x: status %d \"%s\"", i, masks[m], (int)status, err.text);
        }
    free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configs),
        cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_gguf_flipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
