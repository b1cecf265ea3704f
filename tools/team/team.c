/* team.c: the steps of a team.  At each step every rank reports to rank 0, which compares the reports and answers all. */
#include "tools/team/team.h"
#include "tools/cli/cli.h"
#include "util/fnv1a.h"
#include <stdlib.h>
#include <string.h>

/* -- what started this process -- */
static int64_t number_of(const char *variable) {
    const char *text = getenv(variable);
    return text && *text ? strtoll(text, NULL, 10) : 0;
}

/* Open MPI, MPICH and others that use PMI, MVAPICH2, and a step of Slurm. */
static int64_t ranks_started(void) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                            "SLURM_STEP_NUM_TASKS"};
    int64_t ranks = 1;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (number_of(variables[i]) > ranks) ranks = number_of(variables[i]);
    return ranks;
}

static int64_t rank_started(void) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PMIX_RANK",
                                            "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i])) return number_of(variables[i]);
    return 0;
}

#ifndef GYRE_HAVE_MPI
void team_join(const char *command, int shares, int argc, char **argv) {
    (void)argc, (void)argv;
    const int64_t ranks = ranks_started();
    if (ranks <= 1) return;
    if (rank_started() > 0) exit(0); /* rank 0 says it, and has the time to: mpirun ends all after the first failure */
    if (shares)
        exit(cli_fail("%lld processes: this gyre was built without MPI and cannot share their work; cmake -DGYRE_MPI=ON "
                      "builds one that can (%s)",
                      (long long)ranks, command));
    exit(cli_fail("%lld processes: the work of one; run it without mpirun (%s)", (long long)ranks, command));
}

int team_leave(int status) {
    return status;
}
const gyre_team *team_get(void) {
    return NULL;
}
int team_leads(void) {
    return 1;
}
int64_t team_ranks(void) {
    return 1;
}
void team_progress_step(void *progress, int64_t tokens, int64_t all) {
    cli_progress_step(progress, tokens, all);
}
gyre_status team_agree(gyre_status status, gyre_error *err) {
    (void)err;
    return status;
}
gyre_status team_same(const char *what, uint64_t hash, gyre_error *err) {
    (void)what, (void)hash, (void)err;
    return GYRE_OK;
}
gyre_status team_share(void *value, size_t bytes, gyre_error *err) {
    (void)value, (void)bytes, (void)err;
    return GYRE_OK;
}
gyre_status team_share_json(gyre_status status, json_t **value, gyre_error *err) {
    (void)value, (void)err;
    return status;
}

#else
#include "tools/team/team_link.h"

static struct {
    gyre_team team; /* team.ranks 0: one process */
    team_link link;
    team_report *reports;  /* [ranks], of rank 0 */
    unsigned char *listed; /* [ranks] 1: that rank takes part; rank 0 itself does not send */
    int left;
} all;

/* -- a step -- */
static const char *host_of(int64_t rank) {
    return all.link.hosts[rank];
}

/* The answer in place of out: rank r, or rank 0 itself, has failed or is elsewhere. */
static void refuse(team_report *out, gyre_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void refuse(team_report *out, gyre_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out->error.text, sizeof out->error.text, format, arguments);
    va_end(arguments);
    out->status = (int32_t)status;
}

/* Joins what rank r reports to the answer so far. */
static void compare(const team_report *own, const team_report *other, int64_t rank, team_report *out) {
    const int left = other->step == TEAM_LEAVE;
    if (other->signal && !out->signal) out->signal = other->signal;
    if (out->status) return;
    if (left && own->step != TEAM_LEAVE)
        refuse(out, GYRE_EIO, "rank %lld (%s): %.380s", (long long)rank, host_of(rank),
               other->error.text[0] ? other->error.text : "ended");
    else if (!left && own->step == TEAM_LEAVE)
        refuse(out, GYRE_EIO, "rank 0 has ended (mpirun)");
    else if (other->status == GYRE_ENOMEM)
        refuse(out, GYRE_ENOMEM, "rank %lld (%s): %.380s", (long long)rank, host_of(rank), other->error.text);
    else if (other->status) {
        out->status = other->status;
        out->error = other->error;
    } else if (other->step != own->step || other->count != own->count)
        refuse(out, GYRE_EINVAL, "rank %lld (%s): is at another step than rank 0 (mpirun)", (long long)rank, host_of(rank));
    else if (own->step == TEAM_SAME && other->hash != own->hash)
        refuse(out, GYRE_EINVAL, "rank %lld (%s): has another %s than rank 0 (mpirun)", (long long)rank, host_of(rank),
               own->error.text);
}

/* Every rank reports; *report becomes rank 0's answer.  out = 1 if all ranks answered. */
static int exchange(team_report *report, double seconds) {
    if (all.team.rank) {
        team_link_report(report);
        return 1;
    }
    team_report answer = *report;
    if (report->step == TEAM_SAME) answer.error.text[0] = 0;
    const int complete = team_link_collect(all.reports, all.listed, seconds) == 0;
    for (int64_t r = 1; r < all.team.ranks && complete; r++)
        if (all.listed[r]) compare(report, &all.reports[r], r, &answer);
    if (complete) team_link_answer(&answer, all.listed);
    for (int64_t r = 1; r < all.team.ranks && complete; r++)
        if (all.listed[r] && all.reports[r].step == TEAM_LEAVE) all.listed[r] = 0;
    *report = answer;
    return complete;
}

static gyre_status step(team_step kind, gyre_status status, uint64_t count, gyre_error *err) {
    team_report report = {.step = kind, .status = (int32_t)status, .signal = cli_signal_seen(), .count = count};
    if (status && err) report.error = *err;
    (void)exchange(&report, 0);
    cli_share_signal(report.signal);
    if (report.status && err) *err = report.error;
    return (gyre_status)report.status;
}

static gyre_status lost(int failed, gyre_error *err) {
    return failed ? gyre_fail(err, GYRE_EIO, "MPI: a message failed (mpirun)") : GYRE_OK;
}

static gyre_status gather(void *ctx, gyre_status status, void *items, int64_t count, size_t bytes, gyre_error *err) {
    (void)ctx;
    status = step(TEAM_GATHER, status, (uint64_t)count * bytes, err);
    return status ? status : lost(team_link_gather(items, count, bytes), err);
}

static gyre_status sum(void *ctx, gyre_status status, float *items, int64_t own, int64_t n, gyre_error *err) {
    (void)ctx;
    status = step(TEAM_SUM, status, (uint64_t)n, err);
    return status ? status : lost(team_link_sum(items, own, n), err);
}

gyre_status team_agree(gyre_status status, gyre_error *err) {
    return all.team.ranks ? step(TEAM_AGREE, status, 0, err) : status;
}

gyre_status team_same(const char *what, uint64_t hash, gyre_error *err) {
    if (!all.team.ranks) return GYRE_OK;
    team_report report = {.step = TEAM_SAME, .signal = cli_signal_seen(), .hash = hash};
    snprintf(report.error.text, sizeof report.error.text, "%s", what);
    (void)exchange(&report, 0);
    cli_share_signal(report.signal);
    if (report.status && err) *err = report.error;
    return (gyre_status)report.status;
}

gyre_status team_share(void *value, size_t bytes, gyre_error *err) {
    if (!all.team.ranks) return GYRE_OK;
    const gyre_status status = step(TEAM_SHARE, GYRE_OK, bytes, err);
    return status ? status : lost(team_link_share(value, bytes), err);
}

gyre_status team_share_json(gyre_status status, json_t **value, gyre_error *err) {
    if (!all.team.ranks) return status;
    char *text = NULL;
    uint64_t bytes = 0;
    if (!status && team_leads() && !(text = json_dumps(*value, JSON_COMPACT | JSON_REAL_PRECISION(17))))
        status = gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (mpirun)");
    status = team_agree(status, err);
    if (!status && text) bytes = strlen(text) + 1;
    if (!status) status = team_share(&bytes, sizeof bytes, err);
    if (!status && !text && !(text = malloc(bytes))) status = gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (mpirun)");
    status = team_agree(status, err);
    if (!status) status = team_share(text, bytes, err);
    if (!status && !team_leads()) {
        json_decref(*value);
        *value = json_loads(text, 0, NULL);
        if (!*value) status = gyre_fail(err, GYRE_ENOMEM, "journal: out of memory (mpirun)");
    }
    free(text);
    return team_agree(status, err);
}

/* -- the processes that take part -- */
const gyre_team *team_get(void) {
    return all.team.ranks ? &all.team : NULL;
}
int team_leads(void) {
    return all.team.rank == 0;
}
int64_t team_ranks(void) {
    return all.team.ranks ? all.team.ranks : 1;
}
void team_progress_step(void *progress, int64_t tokens, int64_t total) {
    cli_progress_step(progress, tokens * team_ranks(), total);
}

/* -- the same work on every rank -- */
/* Two builds of one version may compute differently, so the program itself is compared. */
static uint64_t hash_of_build(void) {
    uint64_t hash = gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, gyre_version(), strlen(gyre_version()));
    unsigned char bytes[1 << 16];
    FILE *file = fopen("/proc/self/exe", "rb");
    for (size_t n; file && (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        hash = gyre_fnv1a(hash, bytes, n);
    if (file) (void)fclose(file);
    return hash;
}

static uint64_t hash_of_words(int argc, char **argv) {
    uint64_t hash = GYRE_FNV1A_OFFSET_BASIS;
    for (int i = 1; i < argc; i++)
        hash = gyre_fnv1a(hash, argv[i], strlen(argv[i]) + 1);
    return hash;
}

/* Processors with other instructions, and GYRE_CPU, give other last bits: attention over a few numbers shows them. */
static uint64_t hash_of_arithmetic(void) {
    enum { TOKENS = 48, DIM = 64 };
    static float q[TOKENS][DIM], out[TOKENS][DIM];
    gyre_attention_dense_args args = GYRE_INIT(gyre_attention_dense_args);
    gyre_encoding *alibi = NULL;
    gyre_error err;
    args.batch = 1, args.queries = args.keys = TOKENS;
    args.heads = args.kv_heads = 1, args.head_dim = DIM;
    args.q = args.k = args.v = q, args.out = out;
    for (int i = 0; i < TOKENS * DIM; i++)
        q[i / DIM][i % DIM] = (float)(i * 7919 % 1021) / 511.0f - 1;
    gyre_status status = gyre_alibi_create(&alibi, 1, &err);
    args.encoding = alibi;
    if (!status) status = gyre_attention_dense(&args, &err);
    if (status) memset(out, 0, sizeof out);
    gyre_encoding_free(alibi);
    return gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, out, sizeof out);
}

static gyre_status check_ranks(int argc, char **argv, gyre_error *err) {
    gyre_status status = team_same("build of gyre", hash_of_build(), err);
    if (!status) status = team_same("command line", hash_of_words(argc, argv), err);
    return status ? status : team_same("kind of processor, or GYRE_CPU,", hash_of_arithmetic(), err);
}

/* Every way out of the process ends here, also exit in the middle of the work. */
static void leave_at_exit(void) {
    (void)team_leave(CLI_FAILED);
}

static gyre_status open_team(gyre_error *err) {
    if (team_link_open(&all.link, err)) return GYRE_EIO;
    all.team = (gyre_team)GYRE_INIT(gyre_team);
    all.team.rank = all.link.rank;
    all.team.ranks = all.link.ranks;
    all.team.gather = gather;
    all.team.sum = sum;
    all.reports = calloc((size_t)all.link.ranks, sizeof *all.reports);
    all.listed = malloc((size_t)all.link.ranks);
    if (!all.reports || !all.listed) {
        team_link_close(CLI_FAILED);
        return gyre_fail(err, GYRE_ENOMEM, "ranks: out of memory (mpirun)");
    }
    memset(all.listed, 1, (size_t)all.link.ranks);
    all.listed[0] = 0;
    (void)atexit(leave_at_exit);
    return GYRE_OK;
}

void team_join(const char *command, int shares, int argc, char **argv) {
    gyre_error err = {0, ""};
    const int64_t ranks = ranks_started();
    if (ranks <= 1) return;
    if (rank_started() > 0) cli_silence();
    cli_set_command_name(command);
    if (!shares && rank_started() > 0) exit(0); /* rank 0 says it */
    if (!shares) exit(cli_fail("%lld processes: the work of one; run it without mpirun (%s)", (long long)ranks, command));
    if (open_team(&err) || check_ranks(argc, argv, &err)) exit(cli_fail_error(&err));
    cli_wait_for_shared_signal();
    cli_never_color();
}

/* Rank 0 waits for the others; after its own failure only a while, because they may compute for hours before they hear
 * of it. */
int team_leave(int status) {
    enum { PATIENCE = 5 };
    if (!all.team.ranks || all.left) return status;
    all.left = 1;
    int complete = 1, waiting = all.team.rank == 0;
    do {
        team_report report = {.step = TEAM_LEAVE, .status = 0};
        if (status) snprintf(report.error.text, sizeof report.error.text, "%s", cli_last_error());
        complete = exchange(&report, status ? PATIENCE : 0);
        waiting = 0;
        for (int64_t r = 1; r < all.team.ranks && all.team.rank == 0; r++)
            waiting |= all.listed[r];
    } while (waiting && complete);
    team_link_close(complete ? 0 : status ? status : CLI_FAILED);
    all.team.ranks = 0;
    return status;
}
#endif
