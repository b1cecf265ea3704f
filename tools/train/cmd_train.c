/* cmd_train.c: gyre train: trains a small decoder with any encoding; a killed run can be resumed. */
#include "gyre/gyre_fields.h"
#include "gyre/gyre_train.h"
#include "tools/cli/cli.h"
#include "tools/cli/plain_stream.h"
#include "tools/common/model_input.h"
#include "tools/common/model_path.h"
#include "tools/common/variants.h"
#include "tools/options/method_options.h"
#include "tools/options/training_text.h"
#include "tools/subcommands.h"
#include "tools/team/team.h"
#include "util/absent_path.h"
#include "util/atomic_file.h"
#include "util/checkpoint_files.h"
#include "util/open_regular.h"
#include "util/path.h"
#include "util/temporary.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The tokenizer of the model that training begins with. */
typedef struct tokenizer_source {
    gyre_tokenizer *tokenizer; /* NULL: the model reads bytes */
    const char *folder;        /* that holds its files */
} tokenizer_source;

typedef struct train_options {
    cli_options common; /* first; its output is the folder */
    training_texts texts;
    int headers, resume;
    gyre_text_split split;
    int64_t tokens, save_every;
    gyre_dtype dtype;
    gyre_train_options run;
    variant encoding;
    double *bases;    /* [run.model.layer_bases_count]; NULL = not given */
    const char *from; /* the model to fine-tune, under one method */
    int drops_rotation;
    method_options method;
    char command[2048];
} train_options;

static void read_from(const char *option, const char *text, void *at) {
    (void)option;
    *(const char **)at = model_path_find(text);
}

static void read_bases(const char *option, const char *text, void *at) {
    train_options *o = at;
    o->run.model.layer_bases_count = cli_numbers(option, text, 0, 1e18, &o->bases);
    o->run.model.layer_bases = o->bases;
}

static void read_positions(const char *option, const char *text, void *at) {
    train_options *o = at;
    draw_read(option, text, &o->run);
}

/* What --from takes from its model, and what else --resume takes from the checkpoint (cli_option.of). */
enum { OF_MODEL = 1, OF_RUN = 2 };
#define CLI_STRUCT train_options
static const cli_option rows[] = {
    {NULL, NULL, "The text:", 1, CLI_NONE},
    {"text", "PATH", "a file, or a folder with all files under it; may be repeated", 1,
     CLI_OTHER(training_texts, texts, training_texts_read), .file = CLI_FILE_READ},
    {"headers", NULL, "the C library's and the kernel's headers under /usr/include", 1, CLI_FLAG(headers),
     .excludes = "text", .why = "contradicts --text"},
    {"split", "all|train", "train: leave out the files that are held out for evaluation (default: all)", 1,
     CLI_CHOICE(gyre_text_split, split, GYRE_TEXT_SPLIT_ALL)},
    {NULL, NULL, "The model:", 2, CLI_NONE},
    {"encoding", "NAME", "rope, alibi, t5, ...; a wrong name lists them (default: rope)", 2,
     CLI_OTHER(variant, encoding, variant_read), .of = OF_MODEL},
    {"width", "N", "channels (default: 128)", 2, CLI_INTEGER(run.model.model_dim, 8, 1 << 14), .of = OF_MODEL},
    {"layers", "N", "(default: 5)", 2, CLI_INTEGER(run.model.layers, 1, 1 << 10), .of = OF_MODEL},
    {"heads", "N", "(default: 4)", 2, CLI_INTEGER(run.model.heads, 1, 1 << 10), .of = OF_MODEL},
    {"hidden", "N", "channels inside the MLP (default: 2.75 x width)", 2, CLI_INTEGER(run.model.mlp_dim, 1, 1 << 16),
     .of = OF_MODEL},
    {"base", "X", "base of the rotation (default: 10000)", 2, CLI_NUMBER(run.model.position.rope.base, 1.001, 1e18),
     .of = OF_MODEL},
    {"layer-bases", "X,...", "the base of each layer, 0 = it does not rotate; fewer than layers repeat: 1e4,1e4,1e4,0", 2,
     CLI_OTHER_OF_ALL(read_bases), .of = OF_MODEL, .excludes = "base", .why = "gives the bases of all layers"},
    {"rope-dim", "N", "channels of a head that rotate, an even number (default: all)", 2,
     CLI_INTEGER(run.model.position.rope.dim, 2, 1 << 14), .of = OF_MODEL},
    {NULL, NULL, "Fine-tuning:", 3, CLI_NONE},
    {"from", "MODEL", "start with this model's weights, sizes and tokenizer", 3, CLI_OTHER(const char *, from, read_from),
     .of = OF_RUN},
    ROW_METHOD(method, "NAME[:FACTOR]",
               "and with this context extension, at --context: one of " METHOD_NAMES METHOD_NUMBERS_HELP
               ", followed by any of " METHOD_MODIFIERS ", as in yarn:4+resonance (default: none)",
               CLI_GROUP_OF(3, OF_RUN)),
    {"drop-rope", NULL, "and drop its rotation (DroPE); --context should be the length that the model was trained on", 3,
     CLI_FLAG(drops_rotation), .of = OF_RUN},
    ROW_BETA_FAST(method.betas.fast, "32", CLI_GROUP_OF(3, OF_RUN)),
    ROW_BETA_SLOW(method.betas.slow, "1", CLI_GROUP_OF(3, OF_RUN)),
    {NULL, NULL, "The run:", 4, CLI_NONE},
    {"context", "N", "tokens of a training sequence; bytes for a new model (default: 256)", 4,
     CLI_INTEGER(run.context, 16, 1 << 20), .of = OF_RUN},
    {"tokens", "N", "total number of training tokens, rounded up to whole steps (default: 10000000)", 4,
     CLI_INTEGER(tokens, 1, (int64_t)1 << 40), .of = OF_RUN},
    {"positions", "DRAW:N",
     "draw the positions of each sequence from 0 .. N - 1: randomized (a set of them), shape (a shift) or pose (a gap)", 4,
     CLI_OTHER_OF_ALL(read_positions), .of = OF_RUN},
    {"batch", "N", "sequences per step (default: 8)", 4, CLI_INTEGER(run.batch, 1, 1 << 16), .of = OF_RUN},
    {"learning-rate", "X", "peak learning rate (default: 0.004)", 4, CLI_NUMBER(run.learning_rate, 1e-8, 0.5), .of = OF_RUN},
    {"warmup", "N", "steps until the peak (default: 100)", 4, CLI_INTEGER(run.warmup, 0, 1 << 30), .of = OF_RUN},
    {"mix", "SHARE",
     "fraction of sequences with passkeys or copies (default: 0.8; 0: plain text, as always for a model "
     "with a tokenizer)",
     4, CLI_NUMBER(run.retrieval_fraction, 0, 1), .of = OF_RUN},
    {"seed", "N", "seed of the weights and of the choice of sequences (default: 1)", 4, CLI_SEED(run.seed), .of = OF_RUN},
    {NULL, NULL, "The result:", 5, CLI_NONE},
    {"output", "DIR", "the folder to write", 5, CLI_TEXT(common.output), .file = CLI_FILE_FOLDER, .letter = 'o'},
    {"dtype", "f32|f16|bf16", "data type of the finished weights (default: f32)", 5, CLI_CHOICE(gyre_dtype, dtype, 0)},
    {"save-every", "N", "steps between checkpoints (default: 200)", 5, CLI_INTEGER(save_every, 1, INFINITY)},
    {"resume", NULL, "continue from the checkpoint in DIR, with the same result as a run that was not stopped", 5,
     CLI_FLAG(resume), .excludes = "force", .why = "continues what --force would replace"},
    {0}};

static void note_headers(void *options) {
    if (((const train_options *)options)->headers) header_corpus_note();
}

static const char DOC[] =
    "Trains a small byte-level decoder on a text, with one position encoding."
    "\vThe folder DIR has the layout of a Hugging Face checkpoint, with the optimiser's state beside the model until the "
    "run "
    "is done.  After a kill, --resume continues from the last checkpoint.  The result is the same to the last bit, for any "
    "number of threads.\n\n"
    "Example:\n"
    "  gyre train --text book.txt --encoding rope --context 256 -o runs/rope\n"
    "  gyre eval runs/rope --text book.txt --contexts 256,512,1k --methods none,ntk,yarn\n"
    "  gyre train --from runs/rope --drop-rope --text book.txt --tokens 500000 -o runs/drope\n";

static void check_rotation(const train_options *o, const gyre_config *position) {
    const struct gyre_rope_config *rope = &position->rope;
    const gyre_model_config *model = &o->run.model;
    if ((rope->base != 0 || rope->dim || o->bases) && !gyre_kind_has(o->encoding.kind, GYRE_TRAIT_ROTATES))
        cli_usage_error("%s: %s does not rotate",
                        rope->dim  ? "--rope-dim"
                        : o->bases ? "--layer-bases"
                                   : "--base",
                        o->encoding.name);
    if (model->layer_bases_count > model->layers)
        cli_usage_error("--layer-bases: %lld bases for %lld layers", (long long)model->layer_bases_count,
                        (long long)model->layers);
    if (rope->dim % 2 || rope->dim > position->head_dim)
        cli_usage_error("--rope-dim: %lld is not an even number of a head's %lld channels", (long long)rope->dim,
                        (long long)position->head_dim);
}

static void finish_options(train_options *o) {
    gyre_train_options *r = &o->run;
    if (!o->common.output) cli_usage_error("-o: the folder to write is missing");
    if (!o->texts.count && !o->headers) cli_usage_error("--text: a text to train on is missing (or --headers)");
    if (o->from && cli_given_of(&o->common, OF_MODEL))
        cli_usage_error("--from: the encoding and the sizes are that model's");
    if (o->resume && cli_given_of(&o->common, OF_MODEL | OF_RUN))
        cli_usage_error("--resume: model and run come from the checkpoint; give only the text, -o and threads");
    if (!o->from && (!method_is_none(o->method.list) || o->method.betas.fast > 0 || o->method.betas.slow > 0))
        cli_usage_error("--method: extends an existing model; name it with --from");
    if (o->drops_rotation && !o->from) cli_usage_error("--drop-rope: needs a model that rotates; name it with --from");
    if (o->drops_rotation && !method_is_none(o->method.list))
        cli_usage_error("--drop-rope: leaves no rotation to extend with --method");
    if (r->model.model_dim % r->model.heads)
        cli_usage_error("--heads: %lld do not divide the width %lld", (long long)r->model.heads,
                        (long long)r->model.model_dim);
    r->model.kv_heads = r->model.heads;
    r->model.head_dim = r->model.model_dim / r->model.heads;
    if (!r->model.mlp_dim) r->model.mlp_dim = r->model.model_dim * 11 / 4;
    gyre_config *position = &r->model.position;
    position->head_dim = r->model.head_dim;
    position->heads = r->model.heads;
    position->input.dim = r->model.model_dim;
    check_rotation(o, position);
    variant_model(&o->encoding, &r->model);
    if (variant_draw(&o->encoding))
        cli_usage_error("--encoding: %s draws from as many positions as a lab's longest context; give --positions %s:N",
                        o->encoding.name, gyre_position_draw_name(variant_draw(&o->encoding)));
    if (variant_config(&o->encoding, r->context, r->context, &o->method.betas, position))
        cli_usage_error("--encoding: %s cannot be created for these sizes (for scalings past the trained length: gyre lab)",
                        o->encoding.name);
    if (r->positions != GYRE_POSITION_DRAW_NONE && r->position_range < r->context)
        cli_usage_error("--positions: a range of %lld is less than the context of %lld", (long long)r->position_range,
                        (long long)r->context);
    draw_fit(r, position);
    const int64_t per_step = r->batch * r->context;
    r->steps = (o->tokens + per_step - 1) / per_step;
}

static int tokenizer_is_in(const char *folder) {
    char path[4200];
    return snprintf(path, sizeof path, "%s/" GYRE_TOKENIZER_FILE, folder) < (int)sizeof path && !gyre_is_absent(path);
}

/* *out = the bytes of a tokenizer's file, which the caller frees.  Errors: EFORMAT: longer than 64 MiB, as where it is
 * parsed; EIO. */
static gyre_status read_file(const char *path, void **out, size_t *count, gyre_error *err) {
    enum { MOST_MIB = 64 };
    struct stat is;
    FILE *file = gyre_open_regular(path);
    const int there = file && fstat(fileno(file), &is) == 0, fits = there && is.st_size <= (off_t)MOST_MIB << 20;
    char *bytes = fits ? malloc((size_t)is.st_size + 1) : NULL;
    const size_t read = bytes ? fread(bytes, 1, (size_t)is.st_size, file) : 0;
    const int failed = !bytes || read != (size_t)is.st_size;
    if (file) (void)fclose(file);
    if (there && !fits) return gyre_fail(err, GYRE_EFORMAT, "tokenizer: longer than %d MiB (%s)", MOST_MIB, path);
    if (failed) {
        free(bytes);
        return gyre_fail(err, GYRE_EIO, "tokenizer: cannot be read (%s)", path);
    }
    *out = bytes;
    *count = read;
    return GYRE_OK;
}

static gyre_status open_text(const train_options *o, const gyre_tokenizer *tokenizer, gyre_text *text, gyre_error *err) {
    if (tokenizer) return gyre_text_tokenize(text, tokenizer, o->texts.paths, o->texts.count, o->run.context + 1, err);
    if (o->headers) return header_corpus_open(text, o->split, o->run.context + 1, err);
    return gyre_text_open(text, o->texts.paths, o->texts.count, o->split, o->run.context + 1, err);
}

/* *out = the tokenizer that a fine-tuned model reads through, NULL if it reads bytes.  A checkpoint that --resume continues
 * has it in its folder.  Errors: those of gyre_tokenizer_open; EUNSUPPORTED: something that only bytes can do was asked
 * for. */
static gyre_status open_tokenizer(train_options *o, tokenizer_source *out, gyre_error *err) {
    const char *folder = o->from ? o->from : o->common.output;
    gyre_error why = {0, ""};
    struct stat is;
    if (!o->from && !o->resume) return GYRE_OK;
    if (o->resume && !tokenizer_is_in(folder)) return GYRE_OK;
    const gyre_status status = gyre_tokenizer_open(&out->tokenizer, folder, &why);
    if (status)
        return gyre_fail(err, status, "tokenizer: %.400s; without it the model cannot read the text (%s)", why.text,
                         o->from ? "--from" : "--resume");
    if (tokenizer_info(out->tokenizer).kind == GYRE_TOKENIZER_BYTES) {
        gyre_tokenizer_free(out->tokenizer);
        out->tokenizer = NULL;
        return GYRE_OK;
    }
    out->folder = folder;
    tokenizer_notes_warn(out->tokenizer, folder);
    if (o->from && (stat(folder, &is) != 0 || !S_ISDIR(is.st_mode)))
        return gyre_fail(err, GYRE_EUNSUPPORTED,
                         "tokenizer: is inside the GGUF and cannot be copied; run gyre convert %s -o DIR first (--from)",
                         folder);
    if (o->headers || o->split != GYRE_TEXT_SPLIT_ALL)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "%s: for models that read bytes, and this one reads tokens (%s)",
                         o->headers ? "--headers" : "--split", folder);
    if (cli_given(&o->common, "mix") && o->run.retrieval_fraction > 0)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "--mix: passkeys and copies are bytes, and this model reads tokens (%s)",
                         folder);
    o->run.retrieval_fraction = 0;
    return GYRE_OK;
}

/* *position = that of the base model under the method, or without rotation.  *made owns what it points to. */
static gyre_status change_position(const train_options *o, gyre_config *position, gyre_encoding **made, gyre_error *err) {
    const gyre_config base = *position;
    if (o->drops_rotation) return config_drop_rotation(&base, position, err);
    const gyre_status status =
        method_encoding(o->method.list, &base, base.trained_length, o->run.context, &o->method.betas, made, err);
    if (!status) *position = *gyre_encoding_get_config(*made);
    return status;
}

/* 1: the training context becomes the trained length.  A scaling has its own, and Fourier series have the terms that
 * theirs says. */
static int follows_context(const gyre_model_config *model) {
    const gyre_config *p = &model->position;
    if (model->layer_parts & GYRE_LAYER_PART_FOURIER) return 0;
    return !gyre_kind_has(p->kind, GYRE_TRAIT_ROTATES) ||
           (p->rope.scaling == GYRE_SCALING_NONE && p->rope.far == GYRE_FAR_AS_NEAR);
}

/* 1: layers rotate by different bases. */
static int has_bases(const gyre_model_config *model) {
    double base = 0;
    for (int64_t i = 0; i < model->layer_bases_count; i++) {
        if (base != 0 && model->layer_bases[i] != 0 && model->layer_bases[i] != base) return 1;
        if (model->layer_bases[i] != 0) base = model->layer_bases[i];
    }
    return 0;
}

/* Takes the sizes from the model and the rotation from the method at the training context. */
static gyre_status create_finetuning(const train_options *o, const gyre_text *text, const gyre_exec *exec,
                                     gyre_trainer **out, gyre_error *err) {
    gyre_model *base = NULL;
    gyre_encoding *encoding = NULL;
    gyre_train_options r = o->run;
    gyre_status status = gyre_model_open_to_train(&base, o->from, err);
    if (status) return status;
    r.model = *gyre_model_get_config(base);
    status = change_position(o, &r.model.position, &encoding, err);
    if (!status && !method_is_none(o->method.list) && has_bases(&r.model))
        status = gyre_fail(err, GYRE_EUNSUPPORTED, "--method: is for one base, and layers have several (%s)", o->from);
    if (o->drops_rotation) r.model.layer_bases = NULL, r.model.layer_bases_count = 0;
    if (!status) {
        if (follows_context(&r.model)) r.model.position.trained_length = r.context;
        status = gyre_trainer_create(out, &r, base, text, exec, err);
    }
    gyre_encoding_free(encoding);
    gyre_model_free(base);
    return status;
}

static gyre_status open_trainer(const train_options *o, const gyre_text *text, const gyre_exec *exec, gyre_trainer **out,
                                gyre_error *err) {
    if (o->resume) return gyre_trainer_open(out, o->common.output, text, exec, err);
    return o->from ? create_finetuning(o, text, exec, out, err) : gyre_trainer_create(out, &o->run, NULL, text, exec, err);
}

/* The process that writes: keeps other runs away, and does not write over a model. */
static gyre_status take_folder(const train_options *o, cli_lock *lock, gyre_error *err) {
    if (o->resume) return cli_lock_acquire(lock, o->common.output, err);
    return cli_lock_new_folder(lock, o->common.output, o->common.force, "--resume continues, ", err);
}

/* With several processes, the one that writes opens a checkpoint first: it may have to finish what a kill left. */
static gyre_status open_trainers(const train_options *o, const gyre_text *text, const gyre_exec *exec, gyre_trainer **out,
                                 gyre_error *err) {
    gyre_status status = team_leads() ? open_trainer(o, text, exec, out, err) : GYRE_OK;
    status = team_agree(status, err);
    if (!status && !team_leads()) status = open_trainer(o, text, exec, out, err);
    const uint64_t step = status ? 0 : (uint64_t)gyre_trainer_steps(*out);
    if (!status) status = gyre_trainer_set_team(*out, team_get(), err);
    return status ? status : team_same("checkpoint", step, err);
}

/* Copies the tokenizer's files beside the weights, so that what was trained is read through the same tokens. */
static gyre_status copy_tokenizer(const tokenizer_source *source, const char *folder, gyre_error *err) {
    static const char *const names[] = {GYRE_TOKENIZER_FILE, GYRE_TOKENIZER_CONFIG_FILE};
    gyre_status status = GYRE_OK;
    for (int i = 0; i < 2 && source->tokenizer && !status; i++) {
        char from[4200], to[4200];
        void *bytes = NULL;
        size_t count = 0;
        if (snprintf(from, sizeof from, "%s/%s", source->folder, names[i]) >= (int)sizeof from ||
            snprintf(to, sizeof to, "%s/%s", folder, names[i]) >= (int)sizeof to)
            return gyre_fail(err, GYRE_EINVAL, "tokenizer: too long a name (%s)", folder);
        if (gyre_is_absent(from) || access(to, F_OK) == 0) continue;
        status = read_file(from, &bytes, &count, err);
        const int code = status ? 0 : gyre_atomic_write(to, bytes, count);
        free(bytes);
        if (code) return gyre_fail(err, GYRE_EIO, "tokenizer: %s (%s)", strerror(code), to);
    }
    return status;
}

/* Saves a checkpoint before the first step, so that a folder that cannot be written is found at once, also by --resume. */
static gyre_status begin_saving(const train_options *o, const tokenizer_source *source, gyre_trainer *t, gyre_error *err) {
    gyre_status status = gyre_trainer_describe(t, o->command, err);
    cli_defer_signals(); /* from here on, a stopped run leaves a checkpoint */
    if (status || !team_leads()) return status;
    status = gyre_trainer_save(t, o->common.output, err);
    return status ? status : copy_tokenizer(source, o->common.output, err);
}

/* *recent = running mean of the loss.  Ctrl-C ends the run early, with a checkpoint. */
static gyre_status run(const train_options *o, const tokenizer_source *source, gyre_trainer *t, double *recent,
                       gyre_error *err) {
    const gyre_train_options *r = gyre_trainer_get_options(t);
    cli_progress progress;
    gyre_status status = begin_saving(o, source, t, err);
    int64_t saved = gyre_trainer_steps(t);
    cli_progress_begin(&progress, "training", "tokens", (r->steps - saved) * r->batch * r->context);
    for (int64_t step = saved; !status && step < r->steps && !cli_interrupted();) {
        double loss = 0;
        status = gyre_trainer_step(t, &loss, err);
        if (status) break;
        step = gyre_trainer_steps(t);
        *recent = *recent == 0 ? loss : 0.98 * *recent + 0.02 * loss;
        cli_progress_label(&progress, "step %lld of %lld, loss %.3f", (long long)step, (long long)r->steps, *recent);
        cli_progress_step(&progress, r->batch * r->context, 0);
        if (step == r->steps || step % o->save_every) continue;
        if (team_leads()) status = gyre_trainer_save(t, o->common.output, err);
        saved = step;
    }
    if (!status && team_leads() && gyre_trainer_steps(t) < r->steps && gyre_trainer_steps(t) > saved)
        status = gyre_trainer_save(t, o->common.output, err);
    cli_progress_end(&progress);
    return status;
}

static int report(const train_options *o, const gyre_trainer *t, double loss) {
    const gyre_train_options *r = gyre_trainer_get_options(t);
    const gyre_model_config *m = gyre_model_get_config(gyre_trainer_get_model(t));
    const long long tokens = (long long)(gyre_trainer_steps(t) * r->batch * r->context);
    if (o->common.json)
        return cli_json_write(cli_stdout(),
                              json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:o}", "model", cli_json_text(o->common.output),
                                        "encoding", gyre_kind_name(m->position.kind), "parameters",
                                        (json_int_t)gyre_model_parameters(gyre_trainer_get_model(t)), "steps",
                                        (json_int_t)gyre_trainer_steps(t), "of", (json_int_t)r->steps, "tokens",
                                        (json_int_t)tokens, "loss", cli_json_number(loss)));
    fprintf(cli_stdout(), "%s: %s, %lld weights, step %lld of %lld, %lld tokens, loss %.4f nats per token\n",
            plain_line(o->common.output), gyre_kind_name(m->position.kind),
            (long long)gyre_model_parameters(gyre_trainer_get_model(t)), (long long)gyre_trainer_steps(t),
            (long long)r->steps, tokens, loss);
    return 0;
}

/* The model is whole.  Beside it the checkpoint before it may be left, under the name of util/temporary.h. */
static void warn_of_rest(const train_options *o) {
    char end[PATH_MAX], rest[GYRE_TEMPORARY_PATH_BYTES];
    if (gyre_folder_end(o->common.output, end)) return;
    if (gyre_temporary_name(rest, end, 0) && !gyre_is_absent(rest))
        cli_warn("%s: the checkpoint before the last could not be removed; the next run does it (%s)", rest,
                 o->common.output);
}

static int finish(const train_options *o, const tokenizer_source *source, const gyre_trainer *t, double loss,
                  gyre_error *err) {
    if (gyre_trainer_steps(t) < gyre_trainer_get_options(t)->steps)
        return cli_fail("training: stopped at step %lld; --resume continues (%s)", (long long)gyre_trainer_steps(t),
                        o->common.output);
    gyre_status status = team_leads() ? gyre_trainer_export(t, o->common.output, o->dtype, err) : GYRE_OK;
    if (!status && team_leads()) status = copy_tokenizer(source, o->common.output, err);
    if (!status && team_leads()) warn_of_rest(o);
    return status ? cli_fail_error(err) : report(o, t, loss);
}

static int train(train_options *o, const gyre_exec *exec) {
    gyre_error err = {0};
    gyre_text text = {0};
    gyre_trainer *t = NULL;
    cli_lock lock = {.file = -1};
    double loss = 0;
    tokenizer_source source = {NULL, NULL};
    gyre_status status = open_tokenizer(o, &source, &err);
    if (!status) status = open_text(o, source.tokenizer, &text, &err);
    if (!status) status = team_same("text", text.hash + (uint64_t)text.count, &err);
    if (!status && team_leads()) status = take_folder(o, &lock, &err);
    if (!status) status = open_trainers(o, &text, exec, &t, &err);
    if (!status) status = run(o, &source, t, &loss, &err);
    const int exit_status = status ? cli_fail_error(&err) : finish(o, &source, t, loss, &err);
    cli_lock_release(&lock);
    gyre_trainer_free(t);
    gyre_text_free(&text);
    gyre_tokenizer_free(source.tokenizer);
    return exit_status;
}

int cmd_train(int argc, char **argv) {
    static const cli_command command = {rows, CLI_THREADS | CLI_JSON, "-o DIR --text PATH", DOC, NULL, 0, note_headers};
    train_options o = {.tokens = 10000000, .save_every = 200, .dtype = GYRE_DTYPE_F32, .run = GYRE_INIT(gyre_train_options)};
    variant_read("--encoding", "rope", &o.encoding);
    gyre_train_options_suggest(&o.run);
    o.run.model.mlp_dim = 0;
    method_options_init(&o.method);
    method_read_one("--method", "none", &o.method);
    o.method.betas = (method_betas){0, 0}; /* 0 = not given */
    cli_command_line(argc, argv, o.command, sizeof o.command);
    cli_parse(&command, argc, argv, &o);
    finish_options(&o);
    gyre_pool *pool = NULL;
    gyre_exec exec;
    if (cli_pool_open(&o.common, &pool, &exec)) return CLI_FAILED;
    const int status = train(&o, &exec);
    gyre_pool_free(pool);
    method_options_free(&o.method);
    free(o.bases);
    return status;
}
