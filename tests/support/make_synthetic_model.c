/* make_synthetic_model.c: computes weights from their names, and writes the files that hold them. */
#include "make_synthetic_model.h"

#include "core/convert.h"
#include "files/tensors/safetensors_stream.h"
#include "make_gguf.h"
#include "util/fnv1a.h"

#include <math.h>
#include <stdio.h>

enum { MOST_TENSORS = 256, LONGEST_PATH = 1024 };

json_t *synthetic_fixture(const char *name) {
    char path[LONGEST_PATH];
    json_error_t why;
    snprintf(path, sizeof path, "%s/families/%s.json", GYRE_TEST_DATA, name);
    json_t *fixture = json_load_file(path, 0, &why);
    if (!fixture) fail_msg("%s: line %d: %s", path, why.line, why.text);
    return fixture;
}

/* -- weights -- */
static uint64_t name_state(uint64_t seed, const char *name) {
    return gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS ^ seed, name, strlen(name));
}

static double uniform(uint64_t state, int64_t i) {
    uint64_t z = state + (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Copies the dimensions and returns the rank. */
static int shape_of(const json_t *tensor, int64_t shape[4], int64_t *count) {
    const json_t *sizes = json_array_get(tensor, 0);
    const int rank = (int)json_array_size(sizes);
    assert_true(json_is_array(sizes) && rank <= 4);
    *count = 1;
    for (int i = 0; i < rank; i++)
        *count *= shape[i] = (int64_t)json_integer_value(json_array_get(sizes, (size_t)i));
    return rank;
}

static const json_t *described(const json_t *fixture, const char *name) {
    const json_t *tensor = json_object_get(json_object_get(fixture, "tensors"), name);
    if (!tensor) fail_msg("the fixture has no tensor %s", name);
    return tensor;
}

float *synthetic_tensor(const json_t *fixture, const char *name, int64_t *count) {
    const json_t *tensor = described(fixture, name);
    const double center = json_number_value(json_array_get(tensor, 1));
    const double spread = json_number_value(json_array_get(tensor, 2));
    const uint64_t state = name_state((uint64_t)test_integer(fixture, "seed"), name);
    int64_t shape[4];
    shape_of(tensor, shape, count);
    float *out = malloc((size_t)*count * sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < *count; i++)
        out[i] = (float)(center + spread * (2.0 * uniform(state, i) - 1.0));
    return out;
}

/* -- safetensors -- */
static gyre_dtype dtype_of(const json_t *fixture) {
    const char *name = test_string(fixture, "dtype");
    return strcmp(name, "F16") == 0 ? GYRE_DTYPE_F16 : strcmp(name, "BF16") == 0 ? GYRE_DTYPE_BF16 : GYRE_DTYPE_F32;
}

/* Blocks of numbers of four bits and their scales, which the fixture has as bytes. */
static int is_packed(const char *name) {
    return strstr(name, "_blocks") || strstr(name, "_scales");
}

static void write_tensor(gyre_safetensors_stream *stream, const json_t *fixture, const gyre_safetensors_spec *spec) {
    int64_t count;
    gyre_error err = {0, ""};
    float *numbers = synthetic_tensor(fixture, spec->name, &count);
    unsigned char *bytes = malloc((size_t)count * spec->bytes);
    assert_non_null(bytes);
    for (int64_t i = 0; i < count && spec->bytes == 1; i++)
        bytes[i] = (unsigned char)fminf(fmaxf(floorf(numbers[i]), 0), 255);
    if (spec->bytes > 1) gyre_store_row(numbers, count, bytes, dtype_of(fixture), 1);
    if (gyre_safetensors_stream_write(stream, bytes, (size_t)count * spec->bytes, &err)) fail_msg("%s", err.text);
    free(numbers);
    free(bytes);
}

void synthetic_write_folder(const json_t *fixture, const char *folder) {
    char path[LONGEST_PATH];
    gyre_safetensors_spec tensors[MOST_TENSORS];
    gyre_safetensors_stream *stream = NULL;
    const gyre_dtype dtype = dtype_of(fixture);
    int64_t n = 0, count;
    gyre_error err = {0, ""};
    const char *name;
    json_t *tensor;
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(json_dump_file(json_object_get(fixture, "config"), path, JSON_INDENT(2)), 0);
    json_object_foreach(json_object_get(fixture, "tensors"), name, tensor) {
        assert_true(n < MOST_TENSORS);
        tensors[n] = (gyre_safetensors_spec){.name = name, .dtype = "U8", .bytes = 1};
        if (!is_packed(name)) {
            tensors[n].dtype = test_string(fixture, "dtype");
            tensors[n].bytes = gyre_dtype_size(dtype);
        }
        tensors[n].rank = shape_of(tensor, tensors[n].shape, &count);
        n++;
    }
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (gyre_safetensors_stream_open(&stream, path, tensors, n, &err)) fail_msg("%s", err.text);
    for (int64_t i = 0; i < n; i++)
        write_tensor(stream, fixture, &tensors[i]);
    if (gyre_safetensors_stream_close(stream, &err)) fail_msg("%s", err.text);
}

/* -- GGUF -- */
static void put_key(made_gguf *made, const char *key, const json_t *value) {
    if (json_is_string(value)) {
        made_string(made, key, json_string_value(value));
    } else if (json_is_boolean(value)) {
        made_bool(made, key, json_is_true(value));
    } else if (json_is_integer(value)) {
        made_u32(made, key, (uint32_t)json_integer_value(value));
    } else if (json_is_real(value)) {
        made_f32(made, key, (float)json_real_value(value));
    } else {
        fail_msg("%s has a value of a kind that no key of a fixture has", key);
    }
}

/* The index in the safetensors tensor of element i of the GGUF tensor. rows, row: the shape of the former. */
static int64_t place_of(const char *how, int64_t heads, int64_t rows, int64_t row, int64_t i) {
    const int64_t r = i / row, c = i % row, per_head = heads > 0 ? rows / heads : 0;
    if (strcmp(how, "turn") == 0) { /* each head from halves to adjacent pairs */
        const int64_t head = r / per_head, j = r % per_head;
        return (head * per_head + j % 2 * (per_head / 2) + j / 2) * row + c;
    }
    if (strcmp(how, "unfuse") == 0) { /* from query, key and value per head to all queries, all keys, all values */
        const int64_t dim = per_head / 3, block = r / (heads * dim), head = r / dim % heads;
        return (head * per_head + block * dim + r % dim) * row + c;
    }
    if (strcmp(how, "transpose") == 0) return i % rows * row + i / rows;
    if (strcmp(how, "copy") != 0 && strcmp(how, "add_one") != 0) fail_msg("%s: no such way", how);
    return i;
}

static void put_floats(made_gguf *made, const char *name, int rank, const uint64_t *dims, const float *numbers) {
    uint64_t count = 1;
    made_info(made, name, (uint32_t)rank, dims, 0, made->data_bytes);
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    for (uint64_t i = 0; i < count; i++)
        made_number(made->data, &made->data_bytes, made_f32_bits(numbers[i]), 4);
    while (made->data_bytes % made->alignment)
        made->data[made->data_bytes++] = 0;
}

/* The matrices of all experts: one tensor for each, whose name has %d for its number. */
static void put_stack(made_gguf *made, const json_t *fixture, const char *name, const char *pattern) {
    float *all = NULL;
    int64_t experts = 0, shape[4], count = 0;
    const char *number = strstr(pattern, "%d");
    assert_non_null(number);
    for (;; experts++) {
        char source[LONGEST_PATH];
        snprintf(source, sizeof source, "%.*s%d%s", (int)(number - pattern), pattern, (int)experts, number + 2);
        if (!json_object_get(json_object_get(fixture, "tensors"), source)) break;
        float *one = synthetic_tensor(fixture, source, &count);
        assert_int_equal(shape_of(described(fixture, source), shape, &count), 2);
        all = realloc(all, (size_t)((experts + 1) * count) * sizeof *all);
        assert_non_null(all);
        memcpy(all + experts * count, one, (size_t)count * sizeof *all);
        free(one);
    }
    put_floats(made, name, 3, (const uint64_t[]){(uint64_t)shape[1], (uint64_t)shape[0], (uint64_t)experts}, all);
    free(all);
}

/* Outputs `first`, `first` + `step`, ... of [experts][in][out], as [experts][out][in]; or of [experts][out]. */
static void put_columns(made_gguf *made, const json_t *fixture, const char *name, const json_t *made_of) {
    const char *source = json_string_value(json_array_get(made_of, 1));
    const int64_t first = json_integer_value(json_array_get(made_of, 2)),
                  step = json_integer_value(json_array_get(made_of, 3));
    int64_t shape[4], count;
    const int rank = shape_of(described(fixture, source), shape, &count);
    const int64_t in = rank == 3 ? shape[1] : 1, out = shape[rank - 1], kept = out / step;
    float *from = synthetic_tensor(fixture, source, &count), *to = malloc((size_t)count * sizeof *to);
    assert_true(to && (rank == 2 || rank == 3));
    for (int64_t i = 0; i < count / step; i++)
        to[i] = from[(i / (kept * in) * in + i % in) * out + first + i / in % kept * step];
    const uint64_t dims[3] = {(uint64_t)(rank == 3 ? in : kept), (uint64_t)(rank == 3 ? kept : shape[0]),
                              (uint64_t)shape[0]};
    put_floats(made, name, rank, dims, to);
    free(from);
    free(to);
}

/* Of the rows of each head, [heads rows][latent], `count` from `first` on: [heads][count][latent], or turned. */
static void put_latent(made_gguf *made, const json_t *fixture, const char *name, const json_t *made_of) {
    const char *source = json_string_value(json_array_get(made_of, 1));
    int64_t n[4], shape[4], all; /* heads, first, count, whether it is turned */
    for (size_t i = 0; i < 4; i++)
        n[i] = (int64_t)json_integer_value(json_array_get(made_of, 2 + i));
    assert_int_equal(shape_of(described(fixture, source), shape, &all), 2);
    const int64_t latent = shape[1], rows = shape[0] / n[0];
    float *from = synthetic_tensor(fixture, source, &all), *to = malloc((size_t)all * sizeof *to);
    assert_non_null(to);
    for (int64_t i = 0; i < n[0] * n[2] * latent; i++) {
        const int64_t head = i / (n[2] * latent), rest = i % (n[2] * latent);
        const int64_t row = n[3] ? rest % n[2] : rest / latent, column = n[3] ? rest / n[2] : rest % latent;
        to[i] = from[(head * rows + n[1] + row) * latent + column];
    }
    const uint64_t dims[3] = {(uint64_t)(n[3] ? n[2] : latent), (uint64_t)(n[3] ? latent : n[2]), (uint64_t)n[0]};
    put_floats(made, name, 3, dims, to);
    free(from);
    free(to);
}

static void put_tensor(made_gguf *made, const json_t *fixture, const char *name, const json_t *made_of) {
    const char *how = json_string_value(json_array_get(made_of, 0));
    const char *source = json_string_value(json_array_get(made_of, 1));
    const int64_t heads = (int64_t)json_integer_value(json_array_get(made_of, 2));
    const double added = strcmp(how, "add_one") == 0 ? 1.0 : 0.0;
    int64_t shape[4], count;
    uint64_t dims[4];
    const int rank = shape_of(described(fixture, source), shape, &count);
    float *from = synthetic_tensor(fixture, source, &count);
    for (int i = 0; i < rank; i++)
        dims[i] = (uint64_t)(strcmp(how, "transpose") == 0 ? shape[i] : shape[rank - 1 - i]);
    assert_true(rank == 1 || rank == 2);
    float *to = malloc((size_t)count * sizeof *to);
    assert_non_null(to);
    for (int64_t i = 0; i < count; i++)
        to[i] = (float)(from[place_of(how, heads, shape[0], rank == 2 ? shape[1] : 1, i)] + added);
    put_floats(made, name, rank, dims, to);
    free(from);
    free(to);
}

static void put_numbers(made_gguf *made, const char *name, const json_t *numbers) {
    float x[64];
    const size_t n = json_array_size(numbers);
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)json_number_value(json_array_get(numbers, i));
    made_tensor(made, name, x, n);
}

void synthetic_write_gguf(const json_t *fixture, const char *path) {
    const json_t *gguf = json_object_get(fixture, "gguf");
    made_gguf *made = made_begin(3);
    const char *name;
    json_t *value;
    assert_non_null(gguf);
    json_object_foreach(json_object_get(gguf, "keys"), name, value) put_key(made, name, value);
    json_object_foreach(json_object_get(gguf, "tensors"), name, value) {
        const char *how = json_string_value(json_array_get(value, 0));
        if (strcmp(how, "values") == 0)
            put_numbers(made, name, json_array_get(value, 1));
        else if (strcmp(how, "stack") == 0)
            put_stack(made, fixture, name, json_string_value(json_array_get(value, 1)));
        else if (strcmp(how, "latent") == 0)
            put_latent(made, fixture, name, value);
        else if (strcmp(how, "columns") == 0)
            put_columns(made, fixture, name, value);
        else
            put_tensor(made, fixture, name, value);
        assert_true(made->infos_bytes < sizeof made->infos && made->data_bytes < sizeof made->data);
    }
    made_finish(made);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(made->file, 1, made->file_bytes, file), made->file_bytes);
    assert_int_equal(fclose(file), 0);
    free(made);
}
