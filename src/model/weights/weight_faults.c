/* weight_faults.c: everything that is wrong with the tensors of a checkpoint. */
#include "files/printable_name.h"
#include "gyre/gyre_research.h"
#include "model/architecture/model_config_json.h"
#include "model/model.h"
#include "model/network_groups.h"
#include "model/weights/network_weights.h"
#include "util/error.h"
#include "util/path.h"
#include "util/plain_numbers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct check {
    gyre_weight_faults faults; /* first */
    gyre_fault_list list;
    int looks_at_numbers;
    char why[sizeof((gyre_error *)0)->text];
} check;

gyre_status gyre_fault_list_add(gyre_fault_list *list, const char *text, gyre_error *err) {
    list->in_all++;
    if (list->count >= list->most) return GYRE_OK;
    char **texts = realloc(list->texts, ((size_t)list->count + 1) * sizeof *texts);
    if (texts) list->texts = texts;
    char *copy = texts ? strdup(text) : NULL;
    if (!copy) return gyre_fail(err, GYRE_ENOMEM, "faults: no memory for %lld texts", (long long)list->count + 1);
    list->texts[list->count++] = copy;
    return GYRE_OK;
}

void gyre_fault_list_add_unread(gyre_fault_list *list, const gyre_file_tensor *tensor) {
    (void)gyre_stored_check_read(tensor, list->unread++ ? NULL : &list->unread_why);
}

void gyre_fault_list_add_aside(gyre_fault_list *list, const gyre_file_tensor *tensor) {
    if (!list->aside++)
        snprintf(list->aside_first, sizeof list->aside_first, "%.100s",
                 gyre_make_printable(tensor->name, strlen(tensor->name)).text);
}

static gyre_status add(gyre_fault_list *list, gyre_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static gyre_status add(gyre_fault_list *list, gyre_error *err, const char *format, ...) {
    char text[sizeof err->text];
    va_list arguments;
    va_start(arguments, format);
    (void)gyre_plain_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return gyre_fault_list_add(list, text, err);
}

/* Keeps the first reason; out = GYRE_OK unless memory or the system failed. */
static gyre_status leave_out(check *c, gyre_status status, const gyre_error *why, gyre_error *err) {
    if (status == GYRE_ENOMEM || status == GYRE_EIO) return gyre_fail(err, status, "%s", why->text);
    if (c->faults.unchecked) return GYRE_OK;
    c->faults.unchecked = status;
    snprintf(c->why, sizeof c->why, "%s", why->text);
    return GYRE_OK;
}

/* -- numbers -- */
static gyre_status check_numbers(check *c, const gyre_tensor_store *store, gyre_error *err) {
    const gyre_kernels *kernels = gyre_kernels_select();
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < gyre_tensor_store_count(store) && !status; i++) {
        const gyre_file_tensor tensor = gyre_tensor_store_at(store, i);
        gyre_error why = {0, ""};
        if (tensor.type == GYRE_STORED_OTHER || !gyre_stored_check_finite(kernels, &tensor, &why)) continue;
        status = gyre_fault_list_add(&c->list, why.text, err);
    }
    return status;
}

/* -- shapes of a decoder of another program -- */
static void drop_groups(gyre_network *n) {
    for (int i = 0; i < n->groups; i++)
        gyre_encoding_free(n->group[i].encoding);
    n->groups = 0;
}

/* The groups say how many rows a table of positions has.  Without them every other shape can still be checked. */
static gyre_status add_groups(check *c, gyre_network *n, gyre_status read, const gyre_error *unread, gyre_error *err) {
    gyre_error why = {0, ""};
    if (read) return leave_out(c, read, unread, err);
    n->group = calloc((size_t)n->reading->groups_count, sizeof *n->group);
    if (!n->group)
        return gyre_fail(err, GYRE_ENOMEM, "model: no memory for %lld groups", (long long)n->reading->groups_count);
    const gyre_status status = gyre_network_create_groups(n, &why);
    if (!status) return GYRE_OK;
    drop_groups(n);
    return leave_out(c, status, &why, err);
}

static gyre_status check_decoder(check *c, gyre_network *n, const char *path, const gyre_config_document *config,
                                 gyre_profile profile, int64_t length, gyre_error *err) {
    gyre_error why = {0, ""};
    gyre_status status = config ? gyre_architecture_from_config(&n->arch, config, &why)
                                : gyre_architecture_from_gguf(&n->arch, gyre_tensor_store_gguf(n->store), path, &why);
    if (status) return leave_out(c, status, &why, err);
    const gyre_status read =
        config ? gyre_reading_from_document(&n->reading, config, profile, length, &why)
               : gyre_reading_open(&n->reading, path,
                                   GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length), &why);
    n->layer = calloc((size_t)n->arch.layers, sizeof *n->layer);
    if (!n->layer) return gyre_fail(err, GYRE_ENOMEM, "model: no memory for %lld layers", (long long)n->arch.layers);
    for (int64_t layer = 0; layer < n->arch.layers; layer++)
        gyre_network_set_layer_sizes(n, layer, n->arch.head_dim, n->arch.kv_heads);
    status = add_groups(c, n, read, &why, err);
    if (status || (!n->groups && n->arch.layer_rules.heads_by_group)) return status;
    status = gyre_network_list_faults(n, &c->list, err);
    c->faults.parameters = n->parameter_count;
    return status;
}

/* -- shapes of a model of Gyre's own -- */
/* known: [tensors in the store] 1 = of the layout. */
static gyre_status check_unknown(check *c, const unsigned char *known, const gyre_tensor_store *store, gyre_error *err) {
    gyre_status status = GYRE_OK;
    for (int64_t i = 0; i < gyre_tensor_store_count(store) && !status; i++) {
        const gyre_file_tensor tensor = gyre_tensor_store_at(store, i);
        if (!known[i] && !gyre_model_is_implied(tensor.name))
            status = add(&c->list, err, "%.100s: no tensor of the model that config.json describes (%s)",
                         gyre_make_printable(tensor.name, strlen(tensor.name)).text, tensor.file);
    }
    return status;
}

static gyre_status check_tensor(check *c, const gyre_tensor *want, const gyre_file_tensor *got, gyre_error *err) {
    if (got->type == GYRE_STORED_OTHER) gyre_fault_list_add_unread(&c->list, got);
    if (got->rank == want->rank && got->shape[0] == want->shape[0] && (want->rank < 2 || got->shape[1] == want->shape[1]))
        return GYRE_OK;
    return add(&c->list, err,
               "%s: %lld x %lld in %d dimensions, where the config asks for %lld x %lld in %d (%s, offset %llu)", want->name,
               (long long)got->shape[0], (long long)got->shape[1], got->rank, (long long)want->shape[0],
               (long long)(want->rank > 1 ? want->shape[1] : 1), want->rank, got->file, (unsigned long long)got->offset);
}

static gyre_status check_layout(check *c, const gyre_weight_layout *layout, const gyre_tensor_store *store,
                                gyre_error *err) {
    unsigned char *known = calloc((size_t)gyre_tensor_store_count(store) + 1, 1);
    gyre_status status = known ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "model: no memory for its list of tensors");
    for (int64_t i = 0; i < gyre_tensor_count(layout) && !status; i++) {
        const gyre_tensor want = gyre_tensor_at(layout, i);
        const int64_t at = gyre_network_find_tensor(store, want.name);
        if (at < 0) {
            status = add(&c->list, err, "%s: no such tensor (%s)", want.name, gyre_tensor_store_path(store));
            continue;
        }
        const gyre_file_tensor got = gyre_tensor_store_at(store, at);
        known[at] = 1;
        if (want.offset == layout->embedding.offset) c->list.vocab = got.shape[0];
        status = check_tensor(c, &want, &got, err);
    }
    if (!status) status = check_unknown(c, known, store, err);
    free(known);
    return status;
}

static gyre_status check_native(check *c, const gyre_tensor_store *store, const gyre_config_document *document,
                                gyre_error *err) {
    gyre_model_config config;
    gyre_config_arrays arrays = {.slopes = NULL};
    gyre_error why = {0, ""};
    gyre_model *model = calloc(1, sizeof *model);
    if (!model) return gyre_fail(err, GYRE_ENOMEM, "model: no memory (%zu bytes)", sizeof *model);
    gyre_status status = gyre_model_config_read(document, &config, &arrays, &why);
    if (!status) status = gyre_model_init_layout(model, &config, &why);
    if (status) {
        status = leave_out(c, status, &why, err);
    } else {
        c->faults.parameters = model->layout.weight_count;
        status = check_layout(c, &model->layout, store, err);
    }
    gyre_config_arrays_free(&arrays);
    gyre_model_free(model);
    return status;
}

/* -- the whole -- */
/* The embedding by its name, where the config does not describe the tensors. */
static int64_t embedding_rows(const gyre_tensor_store *store) {
    static const char *const tails[] = {"embed_tokens.weight", "wte.weight", "word_embeddings.weight", "token_embd.weight",
                                        "embed_in.weight"};
    for (int64_t i = 0; i < gyre_tensor_store_count(store); i++) {
        const gyre_file_tensor tensor = gyre_tensor_store_at(store, i);
        for (size_t k = 0; k < sizeof tails / sizeof *tails; k++)
            if (tensor.rank == 2 && gyre_ends_with(tensor.name, tails[k])) return tensor.shape[0];
    }
    return 0;
}

static gyre_status check_files(check *c, const char *path, const gyre_config_document *config, gyre_profile profile,
                               int64_t length, gyre_error *err) {
    gyre_network *n = calloc(1, sizeof *n);
    if (!n) return gyre_fail(err, GYRE_ENOMEM, "model: no memory (%s)", path);
    gyre_status status = gyre_tensor_store_open(&n->store, path, err);
    if (!status && c->looks_at_numbers) status = check_numbers(c, n->store, err);
    if (!status)
        status = config && gyre_model_is_native(path, config) ? check_native(c, n->store, config, err)
                                                              : check_decoder(c, n, path, config, profile, length, err);
    if (!status && c->list.vocab == 0) c->list.vocab = embedding_rows(n->store);
    if (!status) status = gyre_tensor_store_check(n->store, err);
    gyre_network_free(n);
    return status;
}

/* out = the list as the caller gets it. */
static gyre_weight_faults *publish(check *c) {
    c->faults.texts = (const char *const *)c->list.texts;
    c->faults.count = c->list.count, c->faults.in_all = c->list.in_all, c->faults.vocab = c->list.vocab;
    c->faults.why = c->why;
    c->faults.aside = c->list.aside, c->faults.aside_first = c->list.aside_first;
    c->faults.unread = c->list.unread, c->faults.unread_text = c->list.unread_why.text;
    return &c->faults;
}

static gyre_status open_faults(gyre_weight_faults **out, const char *path, gyre_profile profile, int64_t context_length,
                               int64_t most, int looks_at_numbers, gyre_error *err) {
    char described[PATH_MAX];
    gyre_config_document config = {NULL, NULL, 0, NULL, NULL};
    gyre_status status = GYRE_OK;
    int is_gguf;
    status = gyre_gguf_is_file(path, &is_gguf, err);
    if (!is_gguf && !status) status = gyre_model_path_check(path, err);
    if (!is_gguf && !status) status = gyre_model_config_path(path, described, err);
    if (!is_gguf && !status) status = gyre_config_document_open(&config, described, err);
    if (status) return status;
    check *c = calloc(1, sizeof *c);
    if (c) {
        c->list.most = most;
        c->looks_at_numbers = looks_at_numbers;
        status = check_files(c, path, is_gguf ? NULL : &config, profile, context_length, err);
    } else {
        status = gyre_fail(err, GYRE_ENOMEM, "faults of weights: no memory (%s)", path);
    }
    gyre_config_document_free(&config);
    if (status)
        gyre_weight_faults_free(c ? &c->faults : NULL);
    else
        *out = publish(c);
    return status;
}

gyre_status gyre_weight_faults_open(gyre_weight_faults **out, const char *path, const gyre_reading_options *options,
                                    int64_t most, gyre_error *err) {
    gyre_error local;
    gyre_reading_options read;
    if (!err) err = &local;
    if (!out || !path) return gyre_fail(err, GYRE_EINVAL, "faults of weights: out and path are needed (NULL given)");
    if (most < 1) return gyre_fail(err, GYRE_EINVAL, "faults of weights: %lld texts; the least is 1", (long long)most);
    const gyre_status status = gyre_reading_options_read(&read, options, err);
    return status ? status : open_faults(out, path, read.profile, read.context_length, most, 1, err);
}

/* -- weights that are finite and too large -- */
/* What overflows: f16 from 65520 on, where its rounding goes to infinity; a float in the square of 2^64. */
static gyre_status doubt(gyre_fault_list *list, const gyre_file_tensor *t, float most, int64_t index, gyre_error *err) {
    static const float f16_end = 65520.0f, square_end = 0x1p64f;
    const uint64_t byte = t->offset + (uint64_t)gyre_stored_row_bytes(t->type, index);
    if (!(most >= f16_end && isfinite(most))) return GYRE_OK; /* what is not finite is a fault */
    return add(list, err, "%s: element %lld has a magnitude of %g, which is infinite in f16%s (%s, byte %llu)",
               gyre_make_printable(t->name, strlen(t->name)).text, (long long)index, (double)most,
               most >= square_end ? ", and whose square is infinite as a float: norms and attention overflow" : "", t->file,
               (unsigned long long)byte);
}

gyre_status gyre_weight_doubts_open(gyre_weight_faults **out, const char *path, int64_t most, gyre_error *err) {
    const gyre_kernels *kernels = gyre_kernels_select();
    gyre_tensor_store *store = NULL;
    if (!out || !path) return gyre_fail(err, GYRE_EINVAL, "doubts of weights: out and path are needed (NULL given)");
    if (most < 1) return gyre_fail(err, GYRE_EINVAL, "doubts of weights: %lld texts; the least is 1", (long long)most);
    gyre_status status = gyre_tensor_store_open(&store, path, err);
    check *c = status ? NULL : calloc(1, sizeof *c);
    if (!status && !c) status = gyre_fail(err, GYRE_ENOMEM, "doubts of weights: no memory (%s)", path);
    if (c) c->list.most = most;
    for (int64_t i = 0; !status && i < gyre_tensor_store_count(store); i++) {
        const gyre_file_tensor tensor = gyre_tensor_store_at(store, i);
        int64_t index;
        if (tensor.type == GYRE_STORED_OTHER || gyre_network_ignores(tensor.name)) continue;
        const float largest = gyre_stored_largest(kernels, &tensor, &index);
        status = doubt(&c->list, &tensor, largest, index, err);
    }
    if (!status) status = gyre_tensor_store_check(store, err);
    gyre_tensor_store_free(store);
    if (status)
        gyre_weight_faults_free(c ? &c->faults : NULL);
    else
        *out = publish(c);
    return status;
}

gyre_status gyre_weight_shapes_check(const char *path, gyre_error *err) {
    gyre_weight_faults *faults;
    gyre_status status = open_faults(&faults, path, GYRE_PROFILE_DEFAULT, 0, 1, 0, err);
    if (status) return status;
    if (faults->count > 0) status = gyre_fail(err, GYRE_EFORMAT, "%s", faults->texts[0]);
    gyre_weight_faults_free(faults);
    return status;
}

void gyre_weight_faults_free(gyre_weight_faults *faults) {
    check *c = (check *)faults;
    if (!c) return;
    for (int64_t i = 0; i < c->list.count; i++)
        free(c->list.texts[i]);
    free(c->list.texts);
    free(c);
}
