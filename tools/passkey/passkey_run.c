/* passkey_run.c: the trials, distributed over threads. */
#include "tools/passkey/passkey_run.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_signals.h"
#include "tools/common/model_input.h"
#include "tools/common/utf8_text.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Reads end at multiples of this.  A token is then always read together with the same others, whatever was cached before,
 * and the result is the same to the bit. */
enum { PREFILL_CHUNK = 128 };

typedef struct trial_index {
    int64_t cell, trial;
} trial_index;

typedef struct shared {
    passkey_job *job;
    trial_index *tasks;                          /* [tasks_count] deepest first */
    int64_t tasks_count, workers, first, stride; /* this process has tasks first, first + stride, ... */
    int64_t *trials_left;                        /* [cells_count] */
    int64_t reported;                            /* number of cells reported so far */
    pthread_mutex_t lock;
    gyre_status status; /* the first failure of any worker */
    gyre_error error;
} shared;

typedef struct worker {
    shared *all;
    gyre_context *context;
    float *logits;
    int32_t *cached_ids; /* [cached_count] tokens in the context */
    int64_t cached_count, read;
} worker;

/* -- reading -- */
static int64_t common_prefix(const worker *w, const passkey_prompt *p) {
    int64_t n = 0;
    while (n < w->cached_count && n < p->count - 1 && w->cached_ids[n] == p->ids[n])
        n++;
    return n / PREFILL_CHUNK * PREFILL_CHUNK;
}

/* w->logits = those after the last token. */
static gyre_status prefill(worker *w, const passkey_prompt *p, gyre_error *err) {
    const int whole = w->all->job->unchunked_prefill;
    const int64_t cached = whole ? 0 : common_prefix(w, p);
    gyre_status status = gyre_context_truncate(w->context, cached);
    if (status) return gyre_fail(err, status, "context: does not forget (passkey)");
    w->cached_count = cached;
    for (int64_t n = 0; w->cached_count < p->count; w->cached_count += n) {
        n = p->count - w->cached_count;
        if (!whole && n > PREFILL_CHUNK) n = PREFILL_CHUNK;
        if (cli_stops(NULL)) return gyre_fail(err, GYRE_EIO, "stopped (passkey)");
        const int last = w->cached_count + n == p->count;
        status = gyre_context_forward(w->context, p->ids + w->cached_count, n, last, w->logits, err);
        if (status) return status;
        memcpy(w->cached_ids + w->cached_count, p->ids + w->cached_count, (size_t)n * sizeof *w->cached_ids);
        w->read += n;
    }
    return GYRE_OK;
}

/* The generated answer.  Generation stops when the answer is right, at the end token, or after prompt->steps tokens. */
typedef struct answer_state {
    const passkey_prompt *prompt;
    int32_t *ids; /* [prompt->steps] */
    int64_t count;
    char *text; /* [bytes] of ids; NULL before the first */
    size_t bytes;
    int right;
} answer_state;

static gyre_status check_answer(answer_state *s, const passkey_job *job, gyre_error *err) {
    free(s->text);
    s->text = NULL;
    const gyre_text answer = {.ids = s->ids, .count = s->count};
    const gyre_status status =
        gyre_detokenize(job->template->tokenizer, &answer, GYRE_TOKENIZE_INSIDE, &s->text, &s->bytes, err);
    if (!status)
        s->right = job->contains ? strstr(s->text, s->prompt->answer) != NULL : passkey_is_exact(s->prompt->answer, s->text);
    return status;
}

static gyre_status generate_answer(worker *w, answer_state *s, gyre_error *err) {
    const passkey_job *job = w->all->job;
    const int64_t vocab = gyre_model_get_config(job->model)->vocab;
    const int32_t end = tokenizer_info(job->template->tokenizer).end;
    const int32_t turn_end = job->template->phrases.chat ? job->template->phrases.chat->end : end;
    const gyre_sampling greedy = GYRE_INIT(gyre_sampling);
    uint64_t state = 0;
    for (;;) {
        const int32_t token = gyre_sample(w->logits, vocab, &greedy, &state);
        if (token == end || token == turn_end) return s->count ? GYRE_OK : check_answer(s, job, err);
        s->ids[s->count++] = token;
        gyre_status status = check_answer(s, job, err);
        if (status || s->right || s->count == s->prompt->steps) return status;
        status = gyre_context_forward(w->context, &token, 1, 1, w->logits, err);
        if (status) return status;
        w->read++;
    }
}

static gyre_status run_prompt(worker *w, const passkey_prompt *p, passkey_trial *out, gyre_error *err) {
    answer_state s = {.prompt = p, .ids = calloc((size_t)p->steps, sizeof *s.ids)};
    gyre_status status = s.ids ? prefill(w, p, err) : gyre_fail(err, GYRE_ENOMEM, "answer: out of memory (passkey)");
    if (!status) status = generate_answer(w, &s, err);
    if (!status) {
        out->right = s.right;
        out->tokens = p->count;
        out->depth = p->sentences ? (double)p->before / (double)p->sentences : 0;
        utf8_sanitize(out->answer, sizeof out->answer, p->answer, strlen(p->answer));
        utf8_sanitize(out->output, sizeof out->output, s.text, s.bytes);
    }
    free(s.ids);
    free(s.text);
    return status;
}

/* -- trials -- */
/* Called with the lock held.  Reports cells in order, whichever is done first. */
static void report_done(shared *all, int64_t cell) {
    passkey_job *job = all->job;
    all->trials_left[cell]--;
    for (; all->reported < job->cells_count && !all->trials_left[all->reported] && !all->status; all->reported++) {
        passkey_cell *done = &job->cells[all->reported];
        if (done->done) continue;
        done->done = 1;
        if (job->report) all->status = job->report(job->ctx, done, &all->error);
    }
}

static gyre_status run_trial(worker *w, const trial_index *t, gyre_error *err) {
    const passkey_job *job = w->all->job;
    const passkey_cell *cell = &job->cells[t->cell];
    passkey_trial *trial = &cell->trials[t->trial];
    passkey_prompt prompt = {0};
    *trial = (passkey_trial){.key = passkey_key(job->seed, job->template->length, cell->depth, t->trial)};
    if (job->template->phrases.marks) trial->key = passkey_marked_key(trial->key);
    gyre_status status = passkey_prompt_make(&prompt, job->template, cell->depth, trial->key, err);
    if (!status) status = run_prompt(w, &prompt, trial, err);
    if (!status && job->progress) job->progress(job->progress_ctx, prompt.count, 0);
    passkey_prompt_free(&prompt);
    return status;
}

/* Numbers that are not finite.  out = EFORMAT. */
static gyre_status name_trial(const shared *all, const trial_index *t, gyre_error *err) {
    const gyre_error why = *err;
    return gyre_fail(err, GYRE_EFORMAT, "trial %lld at depth %g: %s", (long long)t->trial + 1,
                     all->job->cells[t->cell].depth, why.text);
}

/* Worker `index` takes every so many tasks of this process.  They come deepest first, so its earlier tasks were at least as
 * deep. */
static void work(void *arg, int64_t index) {
    worker *w = (worker *)arg + index;
    shared *all = w->all;
    for (int64_t i = all->first + index * all->stride; i < all->tasks_count; i += all->workers * all->stride) {
        gyre_error error = {0, ""};
        (void)pthread_mutex_lock(&all->lock);
        const int ends = !!all->status;
        (void)pthread_mutex_unlock(&all->lock);
        if (ends) return;
        gyre_status status = run_trial(w, &all->tasks[i], &error);
        if (status == GYRE_EFORMAT) status = name_trial(all, &all->tasks[i], &error);
        (void)pthread_mutex_lock(&all->lock);
        if (!status) {
            if (!all->job->team) report_done(all, all->tasks[i].cell);
        } else if (!all->status) {
            all->status = status;
            all->error = error;
        }
        (void)pthread_mutex_unlock(&all->lock);
    }
}

static gyre_status open_worker(worker *w, shared *all, const gyre_exec *exec, gyre_error *err) {
    const passkey_job *job = all->job;
    const int64_t vocab = gyre_model_get_config(job->model)->vocab;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    options.encoding = job->encoding;
    options.max_tokens = job->template->length;
    options.cache_dtype = job->cache;
    options.order = GYRE_ORDER_FIXED; /* the same answer however the prompt is read */
    options.exec = exec;
    *w = (worker){.all = all};
    w->logits = malloc((size_t)vocab * sizeof *w->logits);
    w->cached_ids = malloc((size_t)job->template->length * sizeof *w->cached_ids);
    if (!w->logits || !w->cached_ids) return gyre_fail(err, GYRE_ENOMEM, "logits: out of memory (passkey)");
    return gyre_context_create(&w->context, job->model, &options, err);
}

static void run_workers(shared *all, const gyre_exec *exec) {
    const int64_t threads = exec && exec->concurrency > 1 ? exec->concurrency : 1;
    /* With fewer trials than threads, trials run one after another, each on all threads. */
    const int parallel = all->tasks_count / all->stride >= threads;
    all->workers = parallel ? threads : 1;
    worker *workers = calloc((size_t)all->workers, sizeof *workers);
    if (!workers) all->status = gyre_fail(&all->error, GYRE_ENOMEM, "workers: out of memory (passkey)");
    for (int64_t i = 0; i < all->workers && !all->status; i++)
        all->status = open_worker(&workers[i], all, parallel ? NULL : exec, &all->error);
    if (!all->status && exec && all->workers > 1)
        exec->run(exec->ctx, work, workers, all->workers);
    else if (!all->status)
        work(workers, 0);
    for (int64_t i = 0; workers && i < all->workers; i++) {
        all->job->read += workers[i].read;
        gyre_context_free(workers[i].context);
        free(workers[i].logits);
        free(workers[i].cached_ids);
    }
    free(workers);
}

/* Deepest first; cells of equal depth stay in order. */
static void list_tasks(shared *all) {
    const passkey_job *job = all->job;
    for (int64_t c = 0; c < job->cells_count; c++) {
        if (job->cells[c].done) continue;
        all->trials_left[c] = job->trials;
        int64_t at = all->tasks_count;
        while (at > 0 && job->cells[all->tasks[at - 1].cell].depth < job->cells[c].depth)
            at -= job->trials;
        memmove(&all->tasks[at + job->trials], &all->tasks[at], (size_t)(all->tasks_count - at) * sizeof *all->tasks);
        for (int64_t t = 0; t < job->trials; t++)
            all->tasks[at + t] = (trial_index){c, t};
        all->tasks_count += job->trials;
    }
}

/* Every process gets the trials of all, in the order of tasks, and reports the cells. */
static void share_trials(shared *all) {
    passkey_job *job = all->job;
    const gyre_team *team = job->team;
    const int64_t rows = (all->tasks_count + team->ranks - 1) / team->ranks, items = rows * team->ranks;
    passkey_trial *trials = calloc((size_t)items + 1, sizeof *trials); /* [ranks][rows]: task row * ranks + rank */
    if (!trials && !all->status) all->status = gyre_fail(&all->error, GYRE_ENOMEM, "trials: out of memory (passkey)");
    for (int64_t i = team->rank; trials && i < all->tasks_count; i += team->ranks)
        trials[team->rank * rows + i / team->ranks] = job->cells[all->tasks[i].cell].trials[all->tasks[i].trial];
    all->status = team->gather(team->ctx, all->status, trials, items, sizeof *trials, &all->error);
    for (int64_t i = 0; trials && i < all->tasks_count && !all->status; i++) {
        const trial_index *t = &all->tasks[i];
        job->cells[t->cell].trials[t->trial] = trials[i % team->ranks * rows + i / team->ranks];
        report_done(all, t->cell);
    }
    free(trials);
}

gyre_status passkey_run(passkey_job *job, const gyre_exec *exec, gyre_error *err) {
    shared all = {.job = job, .stride = 1};
    if (job->team) all.first = job->team->rank, all.stride = job->team->ranks;
    job->read = 0;
    all.tasks = malloc((size_t)(job->cells_count * job->trials) * sizeof *all.tasks);
    all.trials_left = calloc((size_t)job->cells_count, sizeof *all.trials_left);
    (void)pthread_mutex_init(&all.lock, NULL);
    if (all.tasks && all.trials_left) {
        list_tasks(&all);
        if (all.tasks_count) run_workers(&all, exec);
        if (all.tasks_count && job->team) share_trials(&all);
    } else {
        all.status = gyre_fail(&all.error, GYRE_ENOMEM, "trials: out of memory (passkey)");
    }
    (void)pthread_mutex_destroy(&all.lock);
    free(all.tasks);
    free(all.trials_left);
    if (all.status && err) *err = all.error;
    return all.status;
}
