#include "model/weights/weight_loader.h"

#include "util/error.h"
#include "util/plain_numbers.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gyre_load_fail(gyre_loader *o, gyre_status status, const char *format, ...) {
    char text[sizeof o->err->text];
    va_list arguments;
    if (o->status) return;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (o->faults && status != GYRE_ENOMEM)
        o->status = gyre_fault_list_add(o->faults, text, o->err);
    else
        o->status = gyre_fail(o->err, status, "%s", text);
}

/* -- tensors by role -- */
/* Writes `pattern` with the layer and the expert in place of its first and second "%d". */
static void write_name(const char *prefix, const char *pattern, const int64_t numbers[2], const char *suffix,
                       char out[GYRE_TENSOR_NAME]) {
    int length = snprintf(out, GYRE_TENSOR_NAME, "%s", prefix);
    for (int i = 0; i < 2; i++) {
        const char *number = strstr(pattern, "%d");
        if (!number) break;
        length += snprintf(out + length, GYRE_TENSOR_NAME - (size_t)length, "%.*s%lld", (int)(number - pattern), pattern,
                           (long long)numbers[i]);
        pattern = number + 2;
    }
    (void)snprintf(out + length, GYRE_TENSOR_NAME - (size_t)length, "%s%s", pattern, suffix);
}

static int place_name(const gyre_network *n, gyre_tensor_place place, const char *suffix, char out[GYRE_TENSOR_NAME]) {
    const char *pattern = n->arch.names[place.role];
    const int64_t numbers[2] = {place.layer, place.expert};
    const char *head = n->arch.head_prefix ? n->arch.head_prefix : "";
    if (!pattern) return 0;
    if (place.role == GYRE_TENSOR_LM_HEAD) /* never has the prefix that other names may have ("transformer.") */
        write_name(head, pattern, numbers, suffix, out);
    else
        write_name(n->arch.prefix, n->arch.wrapped ? pattern + sizeof "model." - 1 : pattern, numbers, suffix, out);
    return 1;
}

int gyre_network_tensor_name(const gyre_network *n, gyre_tensor_role role, int64_t layer, const char *suffix,
                             char out[GYRE_TENSOR_NAME]) {
    return place_name(n, gyre_in_layer(role, layer), suffix, out);
}

/* Binary search: the store is sorted by name. */
int64_t gyre_network_find_tensor(const gyre_tensor_store *store, const char *name) {
    int64_t first = 0, end = gyre_tensor_store_count(store);
    while (first < end) {
        const int64_t middle = first + (end - first) / 2;
        const int order = strcmp(gyre_tensor_store_at(store, middle).name, name);
        if (order == 0) return middle;
        if (order < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return -1;
}

/* Returns 1, with the tensor in *out and marked as used, or 0 if there is none. */
int gyre_load_take(gyre_loader *o, gyre_tensor_place place, const char *suffix, gyre_file_tensor *out) {
    char name[GYRE_TENSOR_NAME];
    if (o->status || !place_name(o->net, place, suffix, name)) return 0;
    const int64_t index = gyre_network_find_tensor(o->net->store, name);
    if (index < 0) return 0;
    *out = gyre_tensor_store_at(o->net->store, index);
    if (!o->used[index]) o->net->parameter_count += out->count;
    o->used[index] = 1;
    return 1;
}

void gyre_load_leave_out(gyre_loader *o, gyre_tensor_place place, const char *suffix) {
    char name[GYRE_TENSOR_NAME];
    const int64_t index = place_name(o->net, place, suffix, name) ? gyre_network_find_tensor(o->net->store, name) : -1;
    if (index >= 0) o->used[index] = 1;
}

int gyre_load_has(const gyre_loader *o, gyre_tensor_place place, const char *suffix) {
    char name[GYRE_TENSOR_NAME];
    return place_name(o->net, place, suffix, name) && gyre_network_find_tensor(o->net->store, name) >= 0;
}

void gyre_load_missing(gyre_loader *o, gyre_tensor_place place, const char *suffix) {
    char name[GYRE_TENSOR_NAME] = "?";
    (void)place_name(o->net, place, suffix, name);
    gyre_load_fail(o, GYRE_EFORMAT, "%s: no such tensor, which a %s has (%s)", name, o->net->arch.family,
                   gyre_tensor_store_path(o->net->store));
}

/* -- vectors -- */
/* Where all faults are listed no number is used, and those that are not finite are listed by the caller. */
float *gyre_load_floats(gyre_loader *o, const gyre_file_tensor *tensor) {
    if (o->faults) {
        if (tensor->type == GYRE_STORED_OTHER) gyre_fault_list_add_unread(o->faults, tensor);
        return NULL;
    }
    float *out = gyre_network_alloc(o->net, (size_t)tensor->count * sizeof *out);
    if (!out) {
        gyre_load_fail(o, GYRE_ENOMEM, "%s: no memory for %lld numbers (%s)", tensor->name, (long long)tensor->count,
                       tensor->file);
        return NULL;
    }
    if (!o->status) o->status = gyre_stored_read(o->kernels, tensor, out, o->err);
    return o->status ? NULL : out;
}

/* Returns NULL if the file has no such vector, which is an error if `required`. */
float *gyre_load_vector(gyre_loader *o, gyre_tensor_place place, const char *suffix, int64_t count, int required) {
    gyre_file_tensor tensor;
    if (!gyre_load_take(o, place, suffix, &tensor)) {
        if (required) gyre_load_missing(o, place, suffix);
        return NULL;
    }
    if (tensor.rank != 1 || tensor.count != count) {
        gyre_load_fail(o, GYRE_EFORMAT,
                       "%s: %lld numbers in %d dimensions, where the config asks for %lld in one (%s, offset %llu)",
                       tensor.name, (long long)tensor.count, tensor.rank, (long long)count, tensor.file,
                       (unsigned long long)tensor.offset);
        return NULL;
    }
    return gyre_load_floats(o, &tensor);
}

int gyre_load_requires_bias(const gyre_loader *o, gyre_tensor_role role) {
    return o->net->arch.required_biases >> role & 1;
}

/* A bias that the architecture does not have is left to check_unknown_tensors, which refuses it.  transformers would
 * ignore it silently. */
static float *load_bias(gyre_loader *o, gyre_tensor_place place, int64_t count) {
    const int required = gyre_load_requires_bias(o, place.role);
    return required || o->net->arch.optional_biases ? gyre_load_vector(o, place, ".bias", count, required) : NULL;
}

gyre_norm_weights gyre_load_norm(gyre_loader *o, gyre_tensor_place place, int64_t dim, int required) {
    float *gains = gyre_load_vector(o, place, ".weight", dim, required);
    for (int64_t i = 0; gains && i < dim && o->net->arch.gain_offset != 0; i++)
        gains[i] += (float)o->net->arch.gain_offset;
    return (gyre_norm_weights){gains, gains || o->faults ? load_bias(o, place, dim) : NULL, dim};
}

/* -- matrices -- */
static int64_t alignment_of(gyre_stored_type type) {
    return type == GYRE_STORED_F32 ? 4 : 2;
}

/* out = the transposed matrix.  The type must store each number separately (no quantized blocks). */
static void transpose(const gyre_file_tensor *tensor, unsigned char *out) {
    const size_t size = (size_t)gyre_stored_row_bytes(tensor->type, 1);
    const int64_t rows = tensor->shape[0], columns = tensor->shape[1];
    enum { TILE = 64 };
    for (int64_t top = 0; top < rows; top += TILE)
        for (int64_t left = 0; left < columns; left += TILE)
            for (int64_t c = left; c < columns && c < left + TILE; c++)
                for (int64_t r = top; r < rows && r < top + TILE; r++)
                    memcpy(out + (size_t)(c * rows + r) * size, tensor->data + (size_t)(r * columns + c) * size, size);
}

/* Returns the tensor's place in the mapped file, or a copy if it is misaligned or stored transposed. */
static const void *map_or_copy(gyre_loader *o, const gyre_file_tensor *tensor, int transposed) {
    if (!transposed && (uintptr_t)tensor->data % (uintptr_t)alignment_of(tensor->type) == 0) return tensor->data;
    unsigned char *copy = gyre_network_alloc(o->net, (size_t)tensor->bytes);
    if (!copy) {
        gyre_load_fail(o, GYRE_ENOMEM, "%s: no memory for %llu bytes (%s)", tensor->name, (unsigned long long)tensor->bytes,
                       tensor->file);
        return NULL;
    }
    if (transposed)
        transpose(tensor, copy);
    else
        memcpy(copy, tensor->data, (size_t)tensor->bytes);
    gyre_stored_release_pages(tensor);
    return copy;
}

gyre_matrix gyre_load_matrix(gyre_loader *o, const gyre_file_tensor *tensor, int64_t out, int64_t in, int transposed) {
    const int64_t *shape = tensor->shape, first = transposed ? in : out, second = transposed ? out : in;
    const int is_row = first == 1 && tensor->rank == 1 && shape[0] == second; /* as some GGUFs have a matrix of one row */
    if (!is_row && (tensor->rank != 2 || shape[0] != first || shape[1] != second))
        gyre_load_fail(o, GYRE_EFORMAT,
                       "%s: %lld x %lld in %d dimensions, where the config asks for %lld x %lld (%s, offset %llu)",
                       tensor->name, (long long)shape[0], (long long)shape[1], tensor->rank, (long long)first,
                       (long long)second, tensor->file, (unsigned long long)tensor->offset);
    else if (transposed && gyre_stored_block_size(tensor->type) > 1)
        gyre_load_fail(o, GYRE_EUNSUPPORTED, "%s: %s, stored with its rows for columns (%s)", tensor->name,
                       gyre_stored_type_name(tensor->type), tensor->file);
    else if (o->faults && tensor->type == GYRE_STORED_OTHER)
        gyre_fault_list_add_unread(o->faults, tensor);
    if (o->faults) return (gyre_matrix){GYRE_STORED_F32, NULL, 0, 0, 0};
    if (!o->status) o->status = gyre_stored_check_finite(o->kernels, tensor, o->err);
    const void *data = o->status ? NULL : map_or_copy(o, tensor, transposed);
    if (o->status) return (gyre_matrix){GYRE_STORED_F32, NULL, 0, 0, 0};
    return (gyre_matrix){tensor->type, data, out, in, gyre_stored_row_bytes(tensor->type, in)};
}

gyre_affine gyre_load_affine(gyre_loader *o, gyre_tensor_place place, int64_t out, int64_t in) {
    gyre_file_tensor tensor;
    gyre_affine map = {{GYRE_STORED_F32, NULL, 0, 0, 0}, NULL};
    const int transposed = place.role >= GYRE_TENSOR_FIRST_OF_LAYER && o->net->arch.transposed;
    if (!gyre_load_take(o, place, ".weight", &tensor)) {
        gyre_load_missing(o, place, ".weight");
        return map;
    }
    if (o->faults && place.role == GYRE_TENSOR_EMBEDDING) o->faults->vocab = tensor.shape[0];
    map.w = gyre_load_matrix(o, &tensor, out, in, transposed);
    map.bias = load_bias(o, place, out);
    if (!o->status) o->net->weight_bytes += map.w.out * map.w.row_bytes;
    return map;
}
