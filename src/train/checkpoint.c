/* checkpoint.c: a run on disk: the model's folder, with optimizer.safetensors (both moments) and training.json (options
 * and step) in it. */
#include "files/file_read.h"
#include "files/json_write.h"
#include "files/replace_folder.h"
#include "files/tensors/safetensors.h"
#include "train/trainer.h"
#include "util/absent_path.h"
#include "util/checkpoint_files.h"
#include "util/error.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const task_names[] = {"text", "posgen-recursive", "posgen-cot", "posgen-semi", "copy"};
enum { TASKS = sizeof task_names / sizeof *task_names };

/* out = the text of the run.  A task has none, whatever was given. */
static gyre_text training_text(const gyre_train_options *o, const gyre_text *text) {
    return o->task == GYRE_TASK_TEXT && text ? *text : (gyre_text){0};
}

static json_t *options_json(const gyre_trainer *t) {
    const gyre_train_options *o = &t->options;
    const gyre_text text = training_text(o, t->text);
    char hash[17], seed[21];
    snprintf(hash, sizeof hash, "%016" PRIx64, text.hash);
    snprintf(seed, sizeof seed, "%" PRIu64, o->seed);
    json_t *json = json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:s, s:{s:s, s:I}}", "step",
                             (json_int_t)t->step, "steps", (json_int_t)o->steps, "context", (json_int_t)o->context, "batch",
                             (json_int_t)o->batch, "warmup", (json_int_t)o->warmup, "learning_rate", o->learning_rate,
                             "final_share", o->final_fraction, "weight_decay", o->weight_decay, "clip", o->clip, "mix",
                             o->retrieval_fraction, "seed", seed, "text", "fnv1a64", hash, "bytes", (json_int_t)text.count);
    int failed = !json;
    if (o->task != GYRE_TASK_TEXT) failed |= json_object_set_new(json, "task", json_string(task_names[o->task]));
    if (o->positions != GYRE_POSITION_DRAW_NONE)
        failed |= json_object_set_new(json, "positions",
                                      json_pack("{s:s, s:I}", "draw", gyre_position_draw_name(o->positions), "range",
                                                (json_int_t)o->position_range)) != 0;
    if (t->command) failed |= json_object_set_new(json, "command", json_string(t->command));
    if (!failed) return json;
    json_decref(json);
    return NULL;
}

static gyre_status write_options(const gyre_trainer *t, const gyre_folder_replacement *folder, gyre_error *err) {
    json_t *json = options_json(t);
    char *text = json ? gyre_json_text(json, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(json);
    if (!text) return gyre_fail(err, GYRE_ENOMEM, "training.json: out of memory (checkpoint)");
    const gyre_status status = gyre_folder_write(folder, "training.json", text, err);
    free(text);
    return status;
}

static gyre_status write_moments(const gyre_trainer *t, const gyre_folder_replacement *folder, gyre_error *err) {
    char path[PATH_MAX];
    const gyre_safetensors_input tensors[2] = {
        {"first_moment", 1, {t->optimizer.weight_count, 0, 0, 0}, t->optimizer.first_moment, 0},
        {"second_moment", 1, {t->optimizer.weight_count, 0, 0, 0}, t->optimizer.second_moment, 0}};
    const gyre_status status = gyre_folder_path(folder, "optimizer.safetensors", path, err);
    return status ? status : gyre_safetensors_write(path, tensors, 2, GYRE_DTYPE_F32, err);
}

/* *same = 1 if the folder holds a checkpoint of a run on the same tokens.  Its tokenizer made them, and remains that of
 * the model; a run on other tokens must not get it. */
static gyre_status find_same_text(const gyre_trainer *t, const char *folder, int *same, gyre_error *err) {
    const gyre_text text = training_text(&t->options, t->text);
    char path[PATH_MAX], ours[17], *bytes = NULL;
    size_t size = 0;
    *same = 0;
    if (snprintf(path, sizeof path, "%s/" GYRE_TRAINING_FILE, folder) >= (int)sizeof path) return GYRE_OK;
    if (gyre_is_absent(path)) return GYRE_OK;
    const gyre_status status = gyre_document_read(path, &bytes, &size, err);
    if (status) return status; /* a tokenizer would be lost */
    json_error_t why;
    json_t *json = json_loadb(bytes, size, 0, &why);
    free(bytes);
    if (!json && json_error_code(&why) == json_error_out_of_memory)
        return gyre_fail(err, GYRE_ENOMEM, "training.json: out of memory (%s)", path);
    const json_t *saved = json_object_get(json, "text"), *hash = json_object_get(saved, "fnv1a64");
    snprintf(ours, sizeof ours, "%016" PRIx64, text.hash);
    *same = hash && strcmp(json_string_value(hash) ? json_string_value(hash) : "", ours) == 0 &&
            json_integer_value(json_object_get(saved, "bytes")) == (json_int_t)text.count;
    json_decref(json);
    return GYRE_OK;
}

static gyre_status begin_folder(const gyre_trainer *t, const char *path, gyre_folder_replacement *out, gyre_error *err) {
    int same;
    const gyre_status status = find_same_text(t, path, &same, err);
    if (status) return status;
    return same ? gyre_folder_begin_own(out, path, err) : gyre_folder_begin(out, path, err);
}

gyre_status gyre_trainer_save(const gyre_trainer *t, const char *path, gyre_error *err) {
    gyre_folder_replacement folder;
    gyre_status status = begin_folder(t, path, &folder, err);
    if (status) return status;
    status = gyre_model_save_into(t->model, &folder, GYRE_DTYPE_F32, err);
    if (!status) status = write_moments(t, &folder, err);
    if (!status) status = write_options(t, &folder, err);
    if (!status) status = gyre_folder_commit(&folder, err);
    if (status) gyre_folder_discard(&folder);
    return status;
}

gyre_status gyre_trainer_export(const gyre_trainer *t, const char *path, gyre_dtype dtype, gyre_error *err) {
    gyre_folder_replacement folder;
    gyre_status status = begin_folder(t, path, &folder, err);
    if (status) return status;
    status = gyre_model_save_into(t->model, &folder, dtype, err);
    if (!status) status = write_options(t, &folder, err);
    if (!status) status = gyre_folder_commit(&folder, err);
    if (status) gyre_folder_discard(&folder);
    return status;
}

/* The members of training.json that are not options. */
typedef struct saved_run {
    int64_t step;
    char *command;
} saved_run;

static gyre_status parse_task(const json_t *json, const char *path, gyre_train_options *o, gyre_error *err) {
    const json_t *value = json_object_get(json, "task");
    o->task = GYRE_TASK_TEXT;
    if (!value) return GYRE_OK;
    const char *name = json_string_value(value);
    for (int i = 0; name && i < TASKS; i++)
        if (strcmp(name, task_names[i]) == 0) {
            o->task = (gyre_task)i;
            return GYRE_OK;
        }
    return gyre_fail(err, GYRE_EFORMAT, "training.json: \"%.100s\" is not a task (%s)", name ? name : "", path);
}

static gyre_status parse_positions(const json_t *json, const char *path, gyre_train_options *o, gyre_error *err) {
    const json_t *value = json_object_get(json, "positions"), *range = json_object_get(value, "range");
    const char *name = json_string_value(json_object_get(value, "draw"));
    o->positions = GYRE_POSITION_DRAW_NONE;
    if (!value) return GYRE_OK;
    for (int i = 0; name && gyre_position_draw_name((gyre_position_draw)i); i++)
        if (strcmp(name, gyre_position_draw_name((gyre_position_draw)i)) == 0 && json_is_integer(range)) {
            o->positions = (gyre_position_draw)i;
            o->position_range = (int64_t)json_integer_value(range);
            return GYRE_OK;
        }
    return gyre_fail(err, GYRE_EFORMAT, "training.json: positions: \"%.100s\" is not drawn, or has no range (%s)",
                     name ? name : "", path);
}

static gyre_status parse_options(json_t *json, const char *path, gyre_train_options *o, saved_run *found,
                                 const gyre_text *text, gyre_error *err) {
    json_int_t at, steps, context, batch, warmup, bytes;
    const char *seed, *hash;
    json_error_t why;
    if (json_unpack_ex(json, &why, 0, "{s:I, s:I, s:I, s:I, s:I, s:F, s:F, s:F, s:F, s:F, s:s, s:{s:s, s:I}}", "step", &at,
                       "steps", &steps, "context", &context, "batch", &batch, "warmup", &warmup, "learning_rate",
                       &o->learning_rate, "final_share", &o->final_fraction, "weight_decay", &o->weight_decay, "clip",
                       &o->clip, "mix", &o->retrieval_fraction, "seed", &seed, "text", "fnv1a64", &hash, "bytes", &bytes))
        return gyre_fail(err, GYRE_EFORMAT, "training.json: %s (%s)", why.text, path);
    gyre_status status = parse_task(json, path, o, err);
    if (!status) status = parse_positions(json, path, o, err);
    if (status) return status;
    const gyre_text expected = training_text(o, text);
    char ours[17], *end;
    snprintf(ours, sizeof ours, "%016" PRIx64, expected.hash);
    o->steps = steps;
    o->context = context;
    o->batch = batch;
    o->warmup = warmup;
    o->seed = strtoull(seed, &end, 10);
    found->step = at;
    if (*end || end == seed || at < 0 || at > steps)
        return gyre_fail(err, GYRE_EFORMAT, "training.json: step %lld of %lld, seed \"%s\" (%s)", (long long)at,
                         (long long)steps, seed, path);
    const json_int_t most = (json_int_t)1 << 40; /* tokens, as gyre train takes them: products stay within int64 */
    if (context < 1 || batch < 1 || context > most || batch > most / context || steps > most / (batch * context) + 1)
        return gyre_fail(err, GYRE_EFORMAT, "training.json: %lld steps of %lld sequences of %lld tokens (%s)",
                         (long long)steps, (long long)batch, (long long)context, path);
    if (strcmp(ours, hash) != 0 || bytes != expected.count)
        return gyre_fail(err, GYRE_EINVAL, "text: hash %s, but the run was trained on %s; give it the same --text (%s)",
                         ours, hash, path);
    const char *command = json_string_value(json_object_get(json, "command"));
    found->command = command ? strdup(command) : NULL;
    return command && !found->command ? gyre_fail(err, GYRE_ENOMEM, "training.json: out of memory (%s)", path) : GYRE_OK;
}

static gyre_status read_options(const char *folder, gyre_train_options *o, saved_run *found, const gyre_text *text,
                                gyre_error *err) {
    char path[PATH_MAX], *bytes = NULL;
    size_t size = 0;
    if (snprintf(path, sizeof path, "%s/training.json", folder) >= (int)sizeof path)
        return gyre_fail(err, GYRE_EIO, "path: too long (%s)", folder);
    gyre_status status = gyre_document_read(path, &bytes, &size, err);
    if (status) return status;
    json_error_t why;
    json_t *json = json_loadb(bytes, size, 0, &why);
    free(bytes);
    if (!json) return gyre_fail(err, GYRE_EFORMAT, "training.json: %s at line %d (%s)", why.text, why.line, path);
    status = parse_options(json, path, o, found, text, err);
    json_decref(json);
    return status;
}

static gyre_status read_moments(const char *folder, gyre_optimizer *o, gyre_error *err) {
    char path[PATH_MAX];
    gyre_safetensors *file = NULL;
    const int64_t shape[1] = {o->weight_count};
    if (snprintf(path, sizeof path, "%s/optimizer.safetensors", folder) >= (int)sizeof path)
        return gyre_fail(err, GYRE_EIO, "path: too long (%s)", folder);
    gyre_status status = gyre_safetensors_open(&file, path, err);
    if (!status) status = gyre_safetensors_read(file, "first_moment", shape, 1, o->first_moment, err);
    if (!status) status = gyre_safetensors_read(file, "second_moment", shape, 1, o->second_moment, err);
    if (!status) status = gyre_safetensors_check(file, err);
    gyre_safetensors_free(file);
    return status;
}

/* A finished run has no optimizer.safetensors and cannot be resumed. */
static gyre_status check_unfinished(const char *folder, const gyre_train_options *o, const saved_run *found,
                                    gyre_error *err) {
    char path[PATH_MAX];
    struct stat info;
    snprintf(path, sizeof path, "%s/optimizer.safetensors", folder);
    if (found->step < o->steps || stat(path, &info) == 0) return GYRE_OK;
    return gyre_fail(err, GYRE_EINVAL, "run: complete, all %lld steps are done (%s)", (long long)o->steps, folder);
}

static gyre_status open_trainer(gyre_trainer **out, const char *folder, gyre_train_options *options, const gyre_text *text,
                                const gyre_exec *exec, gyre_error *err) {
    gyre_model *model = NULL;
    gyre_status status = gyre_model_open_to_train(&model, folder, err);
    if (status) return status;
    options->model = *gyre_model_get_config(model);
    status = gyre_train_options_check(options, text, err);
    if (status) {
        gyre_model_free(model);
        return status;
    }
    return gyre_trainer_from_model(out, options, model, text, exec, err);
}

gyre_status gyre_trainer_open(gyre_trainer **out, const char *folder, const gyre_text *text, const gyre_exec *exec,
                              gyre_error *err) {
    gyre_train_options options = GYRE_INIT(gyre_train_options);
    gyre_trainer *t = NULL;
    saved_run found = {0};
    gyre_train_options_suggest(&options);
    gyre_status status = gyre_folder_recover(folder, err);
    if (!status) status = read_options(folder, &options, &found, text, err);
    if (!status) status = check_unfinished(folder, &options, &found, err);
    if (!status) status = open_trainer(&t, folder, &options, text, exec, err);
    if (!status) status = read_moments(folder, &t->optimizer, err);
    if (status) {
        gyre_trainer_free(t);
        free(found.command);
        return status;
    }
    t->step = found.step;
    t->command = found.command;
    *out = t;
    return GYRE_OK;
}
