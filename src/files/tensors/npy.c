/* npy.c: the header of a .npy file. */
#include "files/tensors/npy.h"

#include "files/little_endian.h"
#include "files/printable_name.h"
#include "util/error.h"

#include <stdint.h>
#include <string.h>

typedef struct parser {
    const unsigned char *bytes; /* the whole file */
    size_t at, end;             /* of the header */
    const char *path;
    gyre_error *err;
} parser;

static gyre_status fail_at(const parser *p, gyre_status status, const char *why) {
    if (p->err) p->err->offset = p->at;
    (void)gyre_fail(p->err, status, "%s: %s (byte %zu of the header of a .npy)", p->path, why, p->at);
    if (p->err) p->err->offset = p->at;
    return status;
}

static void skip_spaces(parser *p) {
    while (p->at < p->end && p->bytes[p->at] == ' ')
        p->at++;
}

/* out = 1 if the next character is this one, which is then passed. */
static int take(parser *p, char wanted) {
    skip_spaces(p);
    if (p->at >= p->end || p->bytes[p->at] != (unsigned char)wanted) return 0;
    p->at++;
    return 1;
}

/* A text between single or double quotes, without escapes, which numpy never needs. */
static gyre_status take_text(parser *p, char *out, size_t size) {
    const char quote = take(p, '\'') ? '\'' : take(p, '"') ? '"' : 0;
    size_t length = 0;
    if (!quote) return fail_at(p, GYRE_EFORMAT, "a text in quotes is missing");
    for (; p->at < p->end && p->bytes[p->at] != (unsigned char)quote; p->at++) {
        const unsigned char c = p->bytes[p->at];
        if (c < ' ' || c > '~' || c == '\\')
            return fail_at(p, GYRE_EFORMAT, "a text with a character that numpy does not write");
        if (length + 1 >= size) return fail_at(p, GYRE_EFORMAT, "a text is too long");
        out[length++] = (char)c;
    }
    out[length] = 0;
    return take(p, quote) ? GYRE_OK : fail_at(p, GYRE_EFORMAT, "a text has no end");
}

static int take_word(parser *p, const char *word) {
    const size_t length = strlen(word);
    skip_spaces(p);
    if (p->end - p->at < length || memcmp(p->bytes + p->at, word, length) != 0) return 0;
    p->at += length;
    return 1;
}

static gyre_status take_integer(parser *p, int64_t *out) {
    const size_t from = p->at;
    *out = 0;
    for (; p->at < p->end && p->bytes[p->at] >= '0' && p->bytes[p->at] <= '9'; p->at++) {
        const int digit = p->bytes[p->at] - '0';
        if (*out > (INT64_MAX - digit) / 10) return fail_at(p, GYRE_EFORMAT, "an extent is too large");
        *out = *out * 10 + digit;
    }
    return p->at > from ? GYRE_OK : fail_at(p, GYRE_EFORMAT, "an extent of the shape is missing");
}

/* "(4096, 128)", "(64,)", "()" */
static gyre_status take_shape(parser *p, gyre_npy *out) {
    int comma = 1;
    if (!take(p, '(')) return fail_at(p, GYRE_EFORMAT, "the shape is no tuple");
    for (out->rank = 0; !take(p, ')'); out->rank++) {
        if (!comma) return fail_at(p, GYRE_EFORMAT, "a comma of the shape is missing");
        if (out->rank == GYRE_NPY_MAX_RANK) return fail_at(p, GYRE_EUNSUPPORTED, "more than four extents");
        const gyre_status status = take_integer(p, &out->shape[out->rank]);
        if (status) return status;
        comma = take(p, ',');
    }
    return out->rank == 1 && !comma ? fail_at(p, GYRE_EFORMAT, "a tuple of one extent has a comma") : GYRE_OK;
}

enum { HAS_TYPE = 1, HAS_ORDER = 2, HAS_SHAPE = 4, HAS_ALL = 7 };

/* One key with its value.  *seen: keys so far. */
static gyre_status take_entry(parser *p, gyre_npy *out, int *fortran, int *seen) {
    char key[24];
    gyre_status status = take_text(p, key, sizeof key);
    if (status) return status;
    if (!take(p, ':')) return fail_at(p, GYRE_EFORMAT, "a colon is missing");
    const int which = strcmp(key, "descr") == 0           ? HAS_TYPE
                      : strcmp(key, "fortran_order") == 0 ? HAS_ORDER
                      : strcmp(key, "shape") == 0         ? HAS_SHAPE
                                                          : 0;
    if (!which || *seen & which)
        return fail_at(p, GYRE_EFORMAT,
                       which ? "a key is there twice" : "a key that is none of descr, fortran_order, shape");
    *seen |= which;
    if (which == HAS_SHAPE) return take_shape(p, out);
    if (which == HAS_TYPE) {
        if (take(p, '[')) return fail_at(p, GYRE_EUNSUPPORTED, "an array of structs, not of numbers");
        return take_text(p, out->type, sizeof out->type);
    }
    *fortran = take_word(p, "True");
    return *fortran || take_word(p, "False") ? GYRE_OK : fail_at(p, GYRE_EFORMAT, "fortran_order is neither True nor False");
}

static gyre_status take_dict(parser *p, gyre_npy *out, int *fortran) {
    int seen = 0, comma = 1;
    if (!take(p, '{')) return fail_at(p, GYRE_EFORMAT, "the header is no dict");
    while (!take(p, '}')) {
        if (!comma) return fail_at(p, GYRE_EFORMAT, "a comma between two keys is missing");
        const gyre_status status = take_entry(p, out, fortran, &seen);
        if (status) return status;
        comma = take(p, ',');
    }
    if (seen != HAS_ALL) return fail_at(p, GYRE_EFORMAT, "descr, fortran_order or shape is missing");
    skip_spaces(p);
    if (p->at < p->end && p->bytes[p->at] == '\n') p->at++;
    return p->at == p->end ? GYRE_OK : fail_at(p, GYRE_EFORMAT, "something follows the dict");
}

/* Sets dtype.  *complex_numbers = 1 if each element is two of them. */
static gyre_status find_type(const parser *p, gyre_npy *out, int *complex_numbers) {
    static const struct {
        const char *type;
        gyre_dtype dtype;
        int is_complex;
    } types[] = {{"<f4", GYRE_DTYPE_F32, 0},  {"<f2", GYRE_DTYPE_F16, 0},  {"<f8", GYRE_DTYPE_F64, 0},
                 {"<V2", GYRE_DTYPE_BF16, 0}, {"|V2", GYRE_DTYPE_BF16, 0}, {"<c8", GYRE_DTYPE_F32, 1},
                 {"<c16", GYRE_DTYPE_F64, 1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, out->type) == 0) {
            out->dtype = types[i].dtype;
            *complex_numbers = types[i].is_complex;
            return GYRE_OK;
        }
    return gyre_fail(p->err, GYRE_EUNSUPPORTED,
                     "%s: numbers of type %s, not <f2, <f4, <f8, <c8, <c16 or the <V2 of bfloat16 (.npy)", p->path,
                     gyre_make_printable(out->type, strlen(out->type)).text);
}

/* Adds the extent of complex numbers, and sets count and strides.  Errors: EFORMAT, EUNSUPPORTED. */
static gyre_status set_extents(const parser *p, gyre_npy *out, int fortran, int complex_numbers) {
    const int rank = out->rank;
    if (complex_numbers && rank == GYRE_NPY_MAX_RANK)
        return fail_at(p, GYRE_EUNSUPPORTED, "more than three extents of complex numbers");
    for (int i = rank; i < 4; i++)
        out->shape[i] = 1;
    if (complex_numbers) out->shape[out->rank++] = 2;
    int64_t numbers = 1; /* as if an extent of 0 were 1: strides are products too */
    for (int i = 0; i < 4; i++) {
        const int64_t extent = out->shape[i] > 0 ? out->shape[i] : 1;
        if (numbers > INT64_MAX / 16 / extent) return fail_at(p, GYRE_EFORMAT, "the shape has too many numbers");
        numbers *= extent;
    }
    out->count = out->shape[0] * out->shape[1] * out->shape[2] * out->shape[3];
    int64_t step = complex_numbers ? 2 : 1;
    for (int k = 0; k < rank; k++) {
        const int i = fortran ? k : rank - 1 - k;
        out->stride[i] = step;
        step *= out->shape[i] > 0 ? out->shape[i] : 1;
    }
    for (int i = rank; i < 4; i++)
        out->stride[i] = 1;
    return GYRE_OK;
}

gyre_status gyre_npy_parse(gyre_npy *out, const unsigned char *bytes, size_t size, const char *path, gyre_error *err) {
    static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    parser p = {bytes, 0, 0, path, err};
    int fortran = 0, complex_numbers = 0;
    *out = (gyre_npy){.rank = 0};
    if (size < 10 || memcmp(bytes, magic, sizeof magic) != 0) return fail_at(&p, GYRE_EFORMAT, "not a .npy");
    p.at = sizeof magic;
    const int version = bytes[6];
    if (version < 1 || version > 3 || bytes[7] != 0)
        return fail_at(&p, GYRE_EUNSUPPORTED, "a version that is none of 1.0, 2.0 and 3.0");
    const size_t width = version == 1 ? 2 : 4;
    const uint64_t length = size < 8 + width ? UINT64_MAX : gyre_load_le(bytes + 8, width);
    p.at = 8;
    if (length > GYRE_NPY_MAX_HEADER || length > size - 8 - width)
        return fail_at(&p, GYRE_EFORMAT, "the header is longer than the file, or than 64 KiB");
    p.at = 8 + width, p.end = p.at + (size_t)length;
    gyre_status status = take_dict(&p, out, &fortran);
    if (!status) status = find_type(&p, out, &complex_numbers);
    if (!status) status = set_extents(&p, out, fortran, complex_numbers);
    if (status) return status;
    out->offset = p.end;
    if ((uint64_t)out->count * gyre_dtype_size(out->dtype) != (uint64_t)(size - p.end))
        return fail_at(&p, GYRE_EFORMAT, "the data are not as many bytes as the shape says");
    return GYRE_OK;
}
