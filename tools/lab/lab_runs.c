/* lab_runs.c: the models of the lab: opened if they exist, else trained, from a checkpoint if there is one. */
#include "gyre/gyre_fields.h"
#include "tools/cli/cli_guard.h"
#include "tools/cli/write_target.h"
#include "tools/common/bundled_models.h"
#include "tools/lab/lab.h"
#include "tools/team/team.h"
#include "util/absent_path.h"
#include "util/atomic_file.h"
#include "util/checkpoint_files.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SAVE_EVERY = 100 };

/* -- the work folder -- */
static json_t *plan_json(const lab *l) {
    const gyre_train_options *r = &l->plan.run;
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, l->all.hash);
    json_t *plan =
        json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "gyre", gyre_version(), "preset",
                  l->plan.preset, "text", hash, "bytes", (json_int_t)l->all.count, "mix", r->retrieval_fraction,
                  "learning_rate", r->learning_rate, "context", (json_int_t)r->context, "batch", (json_int_t)r->batch,
                  "steps", (json_int_t)r->steps, "width", (json_int_t)r->model.model_dim, "layers",
                  (json_int_t)r->model.layers, "tuning_steps", (json_int_t)l->plan.tune.steps);
    if (plan && l->plan.base != 0) json_object_set_new(plan, "base", json_real(l->plan.base));
    if (plan && l->plan.rope_dim) json_object_set_new(plan, "rope_dim", json_integer((json_int_t)l->plan.rope_dim));
    if (plan && l->task) json_object_set_new(plan, "task", json_string(l->task));
    return plan;
}

/* Adds the encodings, for information only: a model depends on its own encoding, so a folder can be continued with
 * others. */
static json_t *with_encodings(json_t *plan, const lab *l) {
    json_t *list = plan ? json_array() : NULL;
    for (int i = 0; list && i < l->plan.encodings_count; i++)
        json_array_append_new(list, json_string(l->plan.encodings[i].name));
    if (list) json_object_set_new(plan, "encodings", list);
    return plan;
}

static gyre_status write_plan(const json_t *plan, const char *path, gyre_error *err) {
    char *text = json_dumps(plan, JSON_INDENT(2));
    if (!text) return gyre_fail(err, GYRE_ENOMEM, "plan: out of memory (%s)", path);
    const int code = gyre_atomic_write(path, text, strlen(text));
    free(text);
    return code ? gyre_fail(err, GYRE_EIO, "work folder: %s (%s)", strerror(code), path) : GYRE_OK;
}

static gyre_status check_plan(const lab *l, const char *path, gyre_error *err) {
    json_error_t why;
    json_t *ours = with_encodings(plan_json(l), l), *found = NULL, *same = NULL;
    struct stat info;
    const int exists = stat(path, &info) == 0;
    gyre_status status = GYRE_OK;
    if (exists && !S_ISREG(info.st_mode))
        status = gyre_fail(err, GYRE_EIO, "work folder: its plan is not a regular file (%s)", path);
    else if (exists && !(found = json_load_file(path, 0, &why)))
        status = gyre_fail(err, GYRE_EFORMAT, "work folder: its plan is not JSON: %s (%s)", why.text, path);
    else if (!ours || (found && !(same = with_encodings(json_deep_copy(found), l))))
        status = gyre_fail(err, GYRE_ENOMEM, "plan: out of memory (%s)", path);
    else if (same && !json_equal(same, ours))
        status = gyre_fail(err, GYRE_EINVAL,
                           "work folder: holds runs of another text, preset, mix%s or gyre; name another with --work (%s)",
                           l->task ? ", task" : "", path);
    else if (!found || !json_equal(found, ours))
        status = write_plan(ours, path, err);
    json_decref(same);
    json_decref(found);
    json_decref(ours);
    return status;
}

/* out = 1 for what a lab writes: a journal, or the folder of a model, whose name ends in the number of its seed or of a
 * method: nope-s1, rope-s1-yarn-8. */
static int is_of_lab(const char *work, const char *name) {
    char path[PATH_MAX];
    struct stat is;
    if (snprintf(path, sizeof path, "%s/%s", work, name) >= (int)sizeof path || stat(path, &is) != 0) return 0;
    if (!S_ISDIR(is.st_mode)) return strcmp(name, "cells.jsonl") == 0 || strcmp(name, "results.jsonl") == 0;
    const char *seed = strstr(name, "-s");
    while (seed && !(seed[2] >= '1' && seed[2] <= '9'))
        seed = strstr(seed + 1, "-s");
    return seed != NULL;
}

/* The plan is written before anything else.  Without one, what looks like a lab's is somebody else's: the run would take
 * models for its own, and replace them. */
static gyre_status check_new_work(const lab *l, gyre_error *err) {
    gyre_status status = GYRE_OK;
    DIR *folder = opendir(l->work);
    if (!folder) return gyre_fail(err, GYRE_EIO, "work folder: %s (%s)", strerror(errno), l->work);
    errno = 0;
    for (const struct dirent *entry; !status && (entry = readdir(folder)); errno = 0)
        if (is_of_lab(l->work, entry->d_name))
            status = gyre_fail(err, GYRE_EINVAL, "work folder: holds %.100s, and no lab.json of a lab; name another (%s)",
                               entry->d_name, l->work);
    if (!status && errno) status = gyre_fail(err, GYRE_EIO, "work folder: %s (%s)", strerror(errno), l->work);
    closedir(folder);
    return status;
}

/* A report may be in a work folder that does not exist yet. */
gyre_status lab_check_report(const lab *l, gyre_error *err) {
    const size_t length = l->work ? strlen(l->work) : 0;
    const int in_work = length && strncmp(l->run.report, l->work, length) == 0 && l->run.report[length] == '/';
    const int made = in_work && mkdir(l->work, 0777) == 0;
    const gyre_status status = report_target_check(l->run.report, err);
    if (made) (void)rmdir(l->work); /* lab_work_open makes it when the texts are known */
    return status;
}

gyre_status lab_work_open(lab *l, gyre_error *err) {
    char path[PATH_MAX];
    if (strlen(l->work) > PATH_MAX - 128) return gyre_fail(err, GYRE_EINVAL, "work folder: too long a name (%s)", l->work);
    if (!team_leads()) return team_agree(GYRE_OK, err); /* the process that writes it looks */
    if (mkdir(l->work, 0777) != 0 && errno != EEXIST)
        return gyre_fail(err, GYRE_EIO, "work folder: %s (%s)", strerror(errno), l->work);
    snprintf(path, sizeof path, "%s/lab.json", l->work);
    gyre_status status = cli_lock_acquire(&l->lock, l->work, err);
    if (!status && gyre_is_absent(path)) status = check_new_work(l, err);
    if (!status) status = check_plan(l, path, err);
    return team_agree(status, err);
}

/* -- training -- */
static gyre_status train_on(lab *l, gyre_trainer *t, const char *path, const char *name, gyre_error *err) {
    const gyre_train_options *o = gyre_trainer_get_options(t);
    gyre_status status = gyre_trainer_describe(t, l->command, err);
    while (!status && gyre_trainer_steps(t) < o->steps) {
        double loss = 0;
        status = method_name_failure(gyre_trainer_step(t, &loss, err), name, o->context, err);
        const int64_t step = gyre_trainer_steps(t);
        cli_progress_label(&l->progress, "%s: step %lld of %lld, loss %.3f", name, (long long)step, (long long)o->steps,
                           loss);
        cli_progress_step(&l->progress, o->batch * o->context * lab_cost_trained(l, o), 0);
        if (status || step == o->steps) break;
        if (team_leads() && (step % SAVE_EVERY == 0 || cli_interrupted())) status = gyre_trainer_save(t, path, err);
        if (!status && cli_interrupted())
            status = gyre_fail(err, GYRE_EIO, "stopped: the same command continues from here (%s)", path);
    }
    if (!status && team_leads()) status = gyre_trainer_export(t, path, GYRE_DTYPE_F32, err);
    return team_agree(status, err); /* the model is there for all to open */
}

gyre_status lab_position_config(const lab *l, const variant *encoding, gyre_model_config *model, gyre_error *err) {
    gyre_config *position = &model->position;
    position->head_dim = model->head_dim;
    position->heads = model->heads;
    position->input.dim = model->model_dim;
    if (gyre_kind_has(encoding->kind, GYRE_TRAIT_ROTATES)) {
        position->rope.base = l->plan.base;
        position->rope.dim = l->plan.rope_dim;
    }
    variant_model(encoding, model);
    const gyre_status status = variant_config(encoding, l->plan.trained, l->plan.longest, &l->plan.betas, position);
    draw_fit(GYRE_ARGS(gyre_train_options, .positions = variant_draw(encoding), .position_range = l->plan.longest),
             position);
    return status ? gyre_fail(err, status, "%s: %s (encodings)", encoding->name, gyre_status_text(status)) : GYRE_OK;
}

/* *o = the training options of a model.  *made owns what o->model.position points to; the caller frees it after training. */
static gyre_status options_of(const lab *l, const lab_model_spec *w, const gyre_model *from, gyre_train_options *o,
                              gyre_encoding **made, gyre_error *err) {
    const int drops = w->tuned == LAB_TUNED;
    *o = w->encoding ? l->plan.run : drops ? l->plan.recalibrate : l->plan.tune;
    o->seed = (uint64_t)w->seed + 1;
    if (w->encoding) {
        o->positions = variant_draw(w->encoding);
        o->position_range = l->plan.longest;
        return lab_position_config(l, w->encoding, &o->model, err);
    }
    const gyre_model_config *base = gyre_model_get_config(from);
    if (drops) {
        o->model = *base;
        return config_drop_rotation(&base->position, &o->model.position, err);
    }
    const gyre_status status =
        method_encoding(&l->plan.tuned[w->tuned], &base->position, l->plan.trained, o->context, &l->plan.betas, made, err);
    if (status) return status;
    o->model = *base;
    o->model.position = *gyre_encoding_get_config(*made);
    return GYRE_OK;
}

void lab_model_name(const lab *l, const lab_model_spec *w, char name[LAB_NAME]) {
    char label[METHOD_LABEL];
    snprintf(label, sizeof label, "%s",
             w->encoding            ? w->encoding->name
             : w->tuned < LAB_TUNED ? l->plan.tuned[w->tuned].label
                                    : l->plan.dropped[0].label);
    for (char *c = label; *c; c++)
        if (*c == ':' || *c == '+') *c = '-';
    snprintf(name, LAB_NAME, "%s%s", w->encoding ? "" : "rope-tuned-", label);
    const size_t used = strlen(name);
    if (l->work) snprintf(name + used, LAB_NAME - used, "-s%lld", (long long)w->seed + 1);
}

static int is_finished(const char *path) {
    char file[PATH_MAX + 32];
    snprintf(file, sizeof file, "%s/" GYRE_WEIGHTS_FILE, path);
    if (gyre_is_absent(file)) return 0;
    snprintf(file, sizeof file, "%s/" GYRE_OPTIMIZER_FILE, path);
    return gyre_is_absent(file);
}

/* *out = the run from its checkpoint at path; NULL: a new one. */
static gyre_status open_or_create(const lab *l, const gyre_train_options *o, const char *path, const gyre_model *start,
                                  gyre_trainer **out, gyre_error *err) {
    const gyre_text *text = o->task == GYRE_TASK_TEXT ? &l->train : NULL;
    return path ? gyre_trainer_open(out, path, text, &l->exec, err)
                : gyre_trainer_create(out, o, start, text, &l->exec, err);
}

gyre_status lab_train_model(lab *l, const char *name, const gyre_train_options *o, const gyre_model *start, gyre_model **out,
                            gyre_error *err) {
    char path[PATH_MAX], moments[PATH_MAX + 32];
    const int64_t per_step = o->batch * o->context * lab_cost_trained(l, o);
    const int n = snprintf(path, sizeof path, "%s/%s", l->work, name);
    if (n < 0 || n >= (int)sizeof path) return gyre_fail(err, GYRE_EINVAL, "path: too long (%s)", name);
    int finished = is_finished(path);
    const gyre_status known = team_share(&finished, sizeof finished, err);
    if (known) return known;
    if (finished) {
        cli_progress_step(&l->progress, o->steps * per_step, 0);
        return gyre_model_open_to_train(out, path, err);
    }
    gyre_trainer *t = NULL;
    snprintf(moments, sizeof moments, "%s/" GYRE_OPTIMIZER_FILE, path);
    int resumes = !gyre_is_absent(moments);
    gyre_status status = team_share(&resumes, sizeof resumes, err);
    /* Of several processes, the one that writes opens a checkpoint first: it may have to finish what a kill left. */
    if (!status && team_leads()) status = open_or_create(l, o, resumes ? path : NULL, start, &t, err);
    status = team_agree(status, err);
    if (!status && !team_leads()) status = open_or_create(l, o, resumes ? path : NULL, start, &t, err);
    if (!status) status = gyre_trainer_set_team(t, team_get(), err);
    if (!status) cli_progress_step(&l->progress, gyre_trainer_steps(t) * per_step, 0);
    if (!status) status = train_on(l, t, path, name, err);
    gyre_trainer_free(t);
    return status ? status : gyre_model_open_to_train(out, path, err);
}

/* All the bundled models, the tuned ones too, are in one folder. */
void lab_note_bundled(void) {
    static char folder[BUNDLED_PATH];
    header_corpus_note();
    if (bundled_model_path("rope", folder, NULL)) return;
    *strrchr(folder, '/') = 0;
    cli_guard_read(folder);
}

gyre_status lab_load_model(lab *l, const lab_model_spec *wanted, const char *name, const gyre_model *base, gyre_model **out,
                           gyre_error *err) {
    if (l->work) {
        gyre_train_options o;
        gyre_encoding *made = NULL;
        gyre_status status = options_of(l, wanted, base, &o, &made, err);
        if (!status) status = lab_train_model(l, name, &o, base, out, err);
        gyre_encoding_free(made);
        return status;
    }
    char path[BUNDLED_PATH];
    const gyre_status status = bundled_model_path(name, path, err);
    return status ? status : gyre_model_open_to_train(out, path, err);
}
