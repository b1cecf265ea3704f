/* test_gguf_rewrite.c: rewriting the metadata of a GGUF file: everything else stays as it was, and a failed write leaves no
 * file. */
#include "files/gguf_rewrite.h"
#include "make_gguf_models.h"
#include "reading/gguf/gguf_rewrite_positions.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* -- files -- */
static char folder[] = "/tmp/gyre-gguf-write-XXXXXX";
static char source[64], target[64];

static void put_file(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static unsigned char *get_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *out = malloc(*bytes + 1);
    assert_non_null(out);
    assert_int_equal(fread(out, 1, *bytes, file), *bytes);
    fclose(file);
    return out;
}

static int files_there(void) {
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static int setup(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(source, sizeof source, "%s/source.gguf", folder);
    snprintf(target, sizeof target, "%s/target.gguf", folder);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    unlink(source);
    unlink(target);
    return rmdir(folder);
}

/* Tensor bytes that differ from block to block. */
static void put_tensors(made_gguf *made) {
    test_random random = {7};
    float x[1000];
    test_fill(&random, x, 1000);
    made_tensor(made, "first", x, 1000);
    made_tensor(made, "second", x + 1, 999);
}

static void make_source(made_gguf *made) {
    put_tensors(made);
    made_finish(made);
    put_file(source, made->file, made->file_bytes);
    unlink(target);
}

/* -- edits -- */
/* The target must equal a file that was built with these changes from the start. */
static void check_same(const made_gguf *wanted) {
    size_t bytes;
    unsigned char *got = get_file(target, &bytes);
    assert_int_equal(bytes, wanted->file_bytes);
    assert_memory_equal(got, wanted->file, bytes);
    free(got);
}

static made_gguf *three_keys(uint32_t version, uint64_t alignment) {
    made_gguf *made = made_begin(version);
    made->alignment = alignment;
    made_u32(made, "general.alignment", (uint32_t)alignment);
    return made;
}

static void replaces_adds_and_removes(void **state) {
    (void)state;
    const gyre_gguf_edit edits[] = {{.key = "b", .type = GYRE_GGUF_F64, .number = 0.1},
                                    {.key = "c", .remove = 1},
                                    {.key = "nowhere", .remove = 1},
                                    {.key = "e", .type = GYRE_GGUF_STRING, .text = "a word"},
                                    {.key = "f", .type = GYRE_GGUF_I8, .integer = -5},
                                    {.key = "g", .type = GYRE_GGUF_BOOL, .integer = 1},
                                    {.key = "h", .type = GYRE_GGUF_F32, .number = 2.5}};
    for (uint64_t alignment = 8; alignment <= 512; alignment *= 4)
        for (uint32_t version = 2; version <= 3; version++) {
            made_gguf *made = three_keys(version, alignment), *wanted = three_keys(version, alignment);
            made_words(made, "a", 50);
            made_string(made, "b", "text");
            made_words(made, "c", 3);
            made_words(made, "d", 60);
            make_source(made);
            made_words(wanted, "a", 50);
            made_put(wanted, "b", MADE_F64, made_f64_bits(0.1), 8);
            made_words(wanted, "d", 60);
            made_string(wanted, "e", "a word");
            made_put(wanted, "f", MADE_I8, 0xfb, 1);
            made_bool(wanted, "g", 1);
            made_f32(wanted, "h", 2.5f);
            put_tensors(wanted);
            made_finish(wanted);
            assert_ok(gyre_gguf_rewrite(source, edits, 7, target, NULL, NULL, NULL));
            check_same(wanted);
            free(made);
            free(wanted);
        }
    assert_int_equal(files_there(), 2);
}

static void copies_without_edits(void **state) {
    (void)state;
    made_gguf *made = model("llama", 128, 4096, 2);
    make_source(made);
    put_file(target, "old", 3); /* is replaced */
    assert_ok(gyre_gguf_rewrite(source, NULL, 0, target, NULL, NULL, NULL));
    check_same(made);
    struct stat info;
    assert_int_equal(stat(target, &info), 0);
    const mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask); /* as any new file */
    free(made);
}

/* Larger than one copy block, and much larger than the memory limit. */
static void needs_little_memory_for_large_tensors(void **state) {
    (void)state;
    const uint64_t large = 64 << 20;
    made_gguf *made = model("llama", 128, 4096, 2);
    made_info(made, "large", 1, &(uint64_t){large / 4}, 0, 0);
    made_finish(made);
    put_file(source, made->file, made->file_bytes);
    unlink(target);
    /* Not all zeros: one nonzero byte per page, different in neighbouring pages. */
    FILE *file = fopen(source, "r+b");
    assert_non_null(file);
    for (uint64_t at = 0; at < large; at += 4096) {
        assert_int_equal(fseek(file, (long)(made->data_at + at), SEEK_SET), 0);
        fputc((int)(at / 4096 % 251), file);
    }
    fclose(file);
    assert_int_equal(truncate(source, (off_t)(made->data_at + large)), 0);
    const pid_t child = fork();
    if (child == 0) {
        struct rusage before, after;
        getrusage(RUSAGE_SELF, &before);
        const gyre_status status = gyre_gguf_rewrite(source, NULL, 0, target, NULL, NULL, NULL);
        getrusage(RUSAGE_SELF, &after);
        _exit(status == GYRE_OK && after.ru_maxrss - before.ru_maxrss < 20 * 1024 ? 0 : 1);
    }
    int ended = -1;
    assert_true(child > 0 && waitpid(child, &ended, 0) == child);
    assert_int_equal(ended, 0);
    size_t bytes, target_bytes;
    unsigned char *a = get_file(source, &bytes), *b = get_file(target, &target_bytes);
    assert_true(bytes == target_bytes && memcmp(a, b, bytes) == 0);
    free(a);
    free(b);
    unlink(target);
    free(made);
}

static void check_refused(const gyre_gguf_edit *edits, int64_t count, const char *to, gyre_status status, const char *text) {
    gyre_error err = {0, ""};
    const int before = files_there();
    assert_int_equal(gyre_gguf_rewrite(source, edits, count, to, NULL, NULL, &err), status);
    if (!strstr(err.text, text)) fail_msg("'%s' does not say '%s'", err.text, text);
    assert_int_equal(files_there(), before);
}

static void refuses_inconsistent_edits(void **state) {
    (void)state;
    made_gguf *made = model("llama", 128, 4096, 2);
    make_source(made);
    free(made);
    const gyre_gguf_edit alignment = {.key = "general.alignment", .type = GYRE_GGUF_U32, .integer = 64};
    const gyre_gguf_edit large = {.key = "k", .type = GYRE_GGUF_U8, .integer = 256},
                         array = {.key = "k", .type = GYRE_GGUF_ARRAY};
    const gyre_gguf_edit below = {.key = "k", .type = GYRE_GGUF_I16, .integer = -32769};
    const gyre_gguf_edit negative = {.key = "k", .type = GYRE_GGUF_U64, .integer = -1};
    const gyre_gguf_edit huge = {.key = "k", .type = GYRE_GGUF_F32, .number = 1e39};
    const gyre_gguf_edit twice[] = {{.key = "k", .remove = 1}, {.key = "k", .type = GYRE_GGUF_U8}};
    check_refused(&alignment, 1, target, GYRE_EINVAL, "general.alignment");
    check_refused(&large, 1, target, GYRE_EINVAL, "256 as uint8");
    check_refused(&below, 1, target, GYRE_EINVAL, "-32769 as int16");
    check_refused(&negative, 1, target, GYRE_EINVAL, "-1 as uint64");
    check_refused(&array, 1, target, GYRE_EINVAL, "as array");
    check_refused(&huge, 1, target, GYRE_EINVAL, "is not a float");
    check_refused(twice, 2, target, GYRE_EINVAL, "two edits of one key");
}

static void refuses_unwritable_targets(void **state) {
    (void)state;
    char other[80], nowhere[80];
    made_gguf *made = model("llama", 128, 4096, 2);
    make_source(made);
    free(made);
    snprintf(other, sizeof other, "%s/link", folder);
    snprintf(nowhere, sizeof nowhere, "%s/no/such", folder);
    assert_int_equal(link(source, other), 0);
    check_refused(NULL, 0, source, GYRE_EINVAL, "the model's own file");
    check_refused(NULL, 0, other, GYRE_EINVAL, "the model's own file");
    unlink(other);
    assert_int_equal(symlink(source, other), 0);
    check_refused(NULL, 0, other, GYRE_EINVAL, "the model's own file");
    unlink(other);
    check_refused(NULL, 0, folder, GYRE_EINVAL, "not a regular file");
    check_refused(NULL, 0, nowhere, GYRE_EIO, "No such file");
    put_file(source, "GGUF", 4);
    check_refused(NULL, 0, target, GYRE_EFORMAT, "version: the file ends within it");
    unlink(source);
    check_refused(NULL, 0, target, GYRE_EIO, "No such file");
}

/* -- failing -- */
/* A disk that is full after any number of bytes. */
static void failed_write_leaves_no_file(void **state) {
    (void)state;
    made_gguf *made = model("llama", 128, 4096, 2);
    make_source(made);
    put_file(target, "old", 3);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    small = old;
    for (rlim_t most = 0; most < made->file_bytes; most += made->file_bytes / 7) {
        gyre_error err = {0, ""};
        size_t bytes;
        small.rlim_cur = most;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const gyre_status status = gyre_gguf_rewrite(source, NULL, 0, target, NULL, NULL, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(status, GYRE_EIO);
        if (!strstr(err.text, "File too large")) fail_msg("%s", err.text);
        assert_int_equal(files_there(), 2);
        unsigned char *kept = get_file(target, &bytes);
        assert_true(bytes == 3 && memcmp(kept, "old", 3) == 0);
        free(kept);
    }
    signal(SIGXFSZ, handler);
    free(made);
}

static gyre_status disagree(void *context, const char *written, gyre_error *err) {
    size_t bytes;
    unsigned char *there = get_file(written, &bytes);
    assert_true(bytes == *(const size_t *)context); /* it is whole by then */
    free(there);
    snprintf(err->text, sizeof err->text, "no");
    return GYRE_EUNSUPPORTED;
}

static void refused_by_the_check_leaves_no_file(void **state) {
    (void)state;
    made_gguf *made = model("llama", 128, 4096, 2);
    gyre_error err = {0, ""};
    make_source(made);
    assert_int_equal(gyre_gguf_rewrite(source, NULL, 0, target, disagree, &made->file_bytes, &err), GYRE_EUNSUPPORTED);
    assert_string_equal(err.text, "no");
    assert_int_equal(files_there(), 1);
    free(made);
}

/* -- positions -- */
static gyre_config rope(int64_t dim, gyre_scaling scaling, double base, double factor, int64_t trained) {
    gyre_config config = test_rope_config(dim, GYRE_LAYOUT_INTERLEAVED);
    config.trained_length = trained;
    config.rope.scaling = scaling;
    config.rope.base = base;
    config.rope.factor = factor;
    return config;
}

/* Reads the target and compares it with llama.cpp's formula. */
static void check_target(const ggml *c, int64_t length, double attention) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    double got[MOST_PAIRS];
    if (gyre_reading_open(&reading, target, GYRE_ARGS(gyre_reading_options, .context_length = length), &err) != GYRE_OK)
        fail_msg("%s", err.text);
    const gyre_layer_reading *all = reading->groups[0];
    test_close(frequencies(all, length, got), attention, 1e-6, "attention factor");
    for (int i = 0; i < c->dim / 2; i++) {
        const long double want = ggml_frequency(c, i, 1);
        test_close(got[i], want, 1e-6L * want, "frequency");
    }
    char value[40];
    snprintf(value, sizeof value, "%d", (int)length);
    check_field(all, "max_length", value, GYRE_ORIGIN_FILE);
    gyre_reading_free(reading);
}

/* The bytes of the tensors, at the end of the file, are unchanged. */
static void check_tensors(const made_gguf *made) {
    size_t bytes;
    unsigned char *got = get_file(target, &bytes);
    assert_memory_equal(got + bytes - made->data_bytes, made->data, made->data_bytes);
    free(got);
}

static void check_positions(made_gguf *made, const gyre_config *config, int64_t length, const ggml *c, double attention) {
    gyre_error err = {0, ""};
    make_source(made);
    if (gyre_gguf_rewrite_positions(source, config, length, target, &err) != GYRE_OK) fail_msg("%s", err.text);
    check_target(c, length, attention);
    check_tensors(made);
    free(made);
}

static void writes_every_scaling_that_llama_cpp_has(void **state) {
    (void)state;
    const double g4 = 1.1386294361;
    gyre_config config = rope(128, GYRE_SCALING_YARN, 10000, 4, 4096);
    const ggml yarn4 = {10000, 4, 1, 32, 1, 4096, 128}, linear4 = {.base = 10000, .s = 4, .dim = 128};
    check_positions(model("llama", 128, 4096, 2), &config, 16384, &yarn4, g4);
    config.rope.attention_factor = 0.9;
    check_positions(model("llama", 128, 4096, 2), &config, 16384, &yarn4, 0.9);
    config.rope.attention_factor = 0;
    config.rope.scaling = GYRE_SCALING_BY_PARTS;
    check_positions(model("llama", 128, 4096, 2), &config, 16384, &yarn4, 1);
    config.rope.scaling = GYRE_SCALING_LINEAR;
    check_positions(model("llama", 128, 4096, 2), &config, 16384, &linear4, 1);
    check_positions(yarn("llama", 128, 10000, 16, 4096), &config, 16384, &linear4, 1);
    config.rope.scaling = GYRE_SCALING_NTK;
    const ggml ntk = {.base = 10000 * powl(4, 128.0L / 126), .s = 1, .dim = 128};
    check_positions(model("llama", 128, 4096, 2), &config, 16384, &ntk, 1);
    config = rope(128, GYRE_SCALING_NONE, 500000, 1, 8192);
    check_positions(yarn("llama", 128, 10000, 16, 4096), &config, 8192, &(ggml){.base = 500000, .s = 1, .dim = 128}, 1);
}

/* Only the length changes in a file that already has this scaling. */
static void unchanged_keys_are_not_edited(void **state) {
    (void)state;
    const gyre_config config = rope(128, GYRE_SCALING_YARN, 10000, 16, 4096);
    made_gguf *made = yarn("llama", 128, 10000, 16, 4096);
    make_source(made);
    assert_ok(gyre_gguf_rewrite_positions(source, &config, 65536, target, NULL));
    check_same(made);
    free(made);
    const gyre_config plain = rope(128, GYRE_SCALING_NONE, 10000, 1, 4096);
    made = model("llama", 128, 4096, 2);
    make_source(made);
    assert_ok(gyre_gguf_rewrite_positions(source, &plain, 4096, target, NULL));
    check_same(made);
    free(made);
}

static void check_unsupported(made_gguf *made, const gyre_config *config, gyre_status status, const char *text) {
    gyre_error err = {0, ""};
    make_source(made);
    assert_int_equal(gyre_gguf_rewrite_positions(source, config, 16384, target, &err), status);
    if (!strstr(err.text, text)) fail_msg("'%s' does not say '%s'", err.text, text);
    assert_int_equal(files_there(), 1);
    free(made);
}

static void writes_keys_of_the_architecture(void **state) {
    (void)state;
    gyre_config config = rope(64, GYRE_SCALING_YARN, 10000, 8, 4096);
    config.rope.beta_fast = 16;
    made_gguf *made = model("mistral3", 64, 4096, 2);
    check_positions(made, &config, 32768, &(ggml){10000, 8, 1, 16, 1, 4096, 64}, 1.2079441542);
    /* A multiplier in the file would turn the factor into a ratio. */
    made = yarn("mistral3", 64, 10000, 2, 4096);
    real_of(made, "mistral3", "rope.scaling.yarn_log_multiplier", 1);
    check_positions(made, &config, 32768, &(ggml){10000, 8, 1, 16, 1, 4096, 64}, 1.2079441542);
    /* Layers with a window keep their base. */
    made = model("gemma3", 64, 4096, 12);
    size_of(made, "gemma3", "attention.sliding_window", 512);
    real_of(made, "gemma3", "rope.freq_base", 1e6f);
    config = rope(64, GYRE_SCALING_LINEAR, 1e6, 8, 4096);
    make_source(made);
    assert_ok(gyre_gguf_rewrite_positions(source, &config, 32768, target, NULL));
    gyre_reading *reading = NULL;
    assert_ok(gyre_reading_open(&reading, target, NULL, NULL));
    check_ggml(group_of(reading, "full_attention"), &(ggml){.base = 1e6L, .s = 8, .dim = 64}, NULL);
    check_ggml(group_of(reading, "sliding_attention"), &(ggml){.base = 10000, .s = 1, .dim = 64}, NULL);
    gyre_reading_free(reading);
    free(made);
    /* attn_factor takes YaRN's factor back, in layers with a window too, which have none. */
    config = rope(64, GYRE_SCALING_BY_PARTS, 1e6, 8, 4096);
    made = model("gemma3", 64, 4096, 12);
    size_of(made, "gemma3", "attention.sliding_window", 512);
    check_unsupported(made, &config, GYRE_EUNSUPPORTED, "attn_factor: llama.cpp would also multiply");
    /* A file that has such a factor is put right: the layers with a window lose it. */
    made = model("gemma3", 64, 4096, 13);
    size_of(made, "gemma3", "attention.sliding_window", 512);
    real_of(made, "gemma3", "rope.scaling.attn_factor", 0.875f);
    config = rope(64, GYRE_SCALING_LINEAR, 1e6, 8, 4096);
    make_source(made);
    assert_ok(gyre_gguf_rewrite_positions(source, &config, 32768, target, NULL));
    free(made);
}

/* llama.cpp counts the temperature of mistral3 from original_context_length, and without it from context_length. */
static void keeps_the_temperature_of_queries(void **state) {
    (void)state;
    gyre_config config = rope(64, GYRE_SCALING_LINEAR, 10000, 8, 4096);
    config.query.temperature = GYRE_TEMPERATURE_MINISTRAL;
    config.query.slope = 0.1;
    config.query.reference_length = 4096;
    made_gguf *made = model("mistral3", 64, 4096, 2);
    real_of(made, "mistral3", "attention.temperature_scale", 0.1f);
    make_source(made);
    assert_ok(gyre_gguf_rewrite_positions(source, &config, 32768, target, NULL));
    gyre_reading *reading = NULL;
    assert_ok(gyre_reading_open(&reading, target, GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_LLAMA_CPP), NULL));
    assert_int_equal(reading->groups[0]->config.query.reference_length, 4096);
    gyre_reading_free(reading);
    unlink(target);
    free(made);
    config.rope.scaling = GYRE_SCALING_YARN;
    config.trained_length = 2048;
    made = model("mistral3", 64, 4096, 2);
    real_of(made, "mistral3", "attention.temperature_scale", 0.1f);
    check_unsupported(made, &config, GYRE_EUNSUPPORTED, "would count from 2048 tokens, not 4096: rope.scaling.original");
    config.trained_length = 4096; /* llama has no key for a temperature */
    check_unsupported(model("llama", 64, 4096, 2), &config, GYRE_EUNSUPPORTED, "no key of the copy says");
}

static void refuses_unsupported_configs(void **state) {
    (void)state;
    static const double list[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const gyre_status no = GYRE_EUNSUPPORTED;
    gyre_config config = rope(128, GYRE_SCALING_DYNAMIC_NTK, 10000, 4, 4096);
    check_unsupported(model("llama", 128, 4096, 2), &config, no, "llama.cpp has none");
    config.rope.scaling = GYRE_SCALING_LLAMA3;
    check_unsupported(model("llama", 128, 4096, 2), &config, no, "llama3: a GGUF keeps it in tensors");
    config.rope.scaling = GYRE_SCALING_LONGROPE;
    config.rope.short_factor = config.rope.long_factor = list;
    check_unsupported(model("llama", 128, 4096, 2), &config, no, "longrope: a GGUF keeps it in tensors");
    config.rope.scaling = GYRE_SCALING_NTK_MIXED;
    check_unsupported(model("llama", 128, 4096, 2), &config, no, "ntk-mixed: llama.cpp has no key for it");
    config = rope(128, GYRE_SCALING_YARN, 10000, 4, 4096);
    config.rope.fractional_bounds = 1;
    check_unsupported(model("llama", 128, 4096, 2), &config, no, "truncate false");
    config.rope.fractional_bounds = 0;
    config.rope.beta_fast = 8;
    check_unsupported(model("llama", 128, 4096, 2), &config, no, "beta_fast");
    config.rope.beta_fast = 0;
    config.rope.resonance = 1;
    check_unsupported(model("llama", 128, 4096, 2), &config, no, "resonance");
    config.rope.resonance = 0;
    config.rope.clip.mode = GYRE_CLIP_SOFT;
    check_unsupported(model("llama", 128, 4096, 2), &config, no, "clipped pairs: llama.cpp has no key for it");
    config.rope.clip.mode = GYRE_CLIP_NONE;
    check_unsupported(model("gpt2", 128, 4096, 2), &config, no, "gpt2: models of this architecture do not rotate");
    check_unsupported(model("llama", 64, 4096, 2), &config, no, "llama.cpp would read another rotation"); /* another head */
    made_gguf *made = model("llama", 128, 4096, 2);
    made_tensor(made, "rope_freqs.weight", (const float[64]){1}, 64);
    check_unsupported(made, &config, no, "rope_freqs.weight: this tensor also divides the frequencies,");
    /* Errors about the model are reported even if the file no longer exists. */
    made = model("llama", 128, 4096, 2);
    word_of(made, "llama", "rope.freq_base", "x");
    check_unsupported(made, &config, GYRE_EFORMAT, "(the rewritten /");
    config.kind = GYRE_KIND_ALIBI;
    config.heads = 8;
    check_unsupported(model("llama", 128, 4096, 2), &config, no, "alibi");
    config = rope(128, GYRE_SCALING_YARN, 10000, 0.5, 4096);
    check_unsupported(model("llama", 128, 4096, 2), &config, GYRE_EINVAL, "rope.factor");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_adds_and_removes),
        cmocka_unit_test(copies_without_edits),
        cmocka_unit_test(needs_little_memory_for_large_tensors),
        cmocka_unit_test(refuses_inconsistent_edits),
        cmocka_unit_test(refuses_unwritable_targets),
        cmocka_unit_test(failed_write_leaves_no_file),
        cmocka_unit_test(refused_by_the_check_leaves_no_file),
        cmocka_unit_test(writes_every_scaling_that_llama_cpp_has),
        cmocka_unit_test(unchanged_keys_are_not_edited),
        cmocka_unit_test(writes_keys_of_the_architecture),
        cmocka_unit_test(keeps_the_temperature_of_queries),
        cmocka_unit_test(refuses_unsupported_configs),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
