/* ring_trouble.c: a ring whose rank 1 is killed, stopped, or otherwise made while the others call.  ci/run mpi runs it.
 *   ring_trouble TIMEOUT CALLS FOLDER   each rank writes FOLDER/pid.RANK after its first call, and makes CALLS calls
 * Prints one line for each rank: what its calls came to.  Ends with 0 if all were right. */
#include "attention_setup.h"
#include "gyre/gyre_mpi.h"
#include "scratch_bytes.h"
#include "split_attention.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const split_case plain = {.name = "rope", .config = {.kind = GYRE_KIND_ROPE}};
static const int64_t lengths[] = {700, 300, 500};

static void write_pid(const char *folder, int64_t rank) {
    char path[512];
    snprintf(path, sizeof path, "%s/pid.%lld", folder, (long long)rank);
    FILE *f = fopen(path, "w");
    if (!f) exit(3);
    fprintf(f, "%ld\n", (long)getpid());
    fclose(f);
}

/* out = what the calls came to. */
static gyre_status call_often(const gyre_transport *t, const char *folder, int calls, gyre_error *err) {
    gyre_status status = GYRE_OK;
    whole w;
    group g;
    make_whole(&w, &plain, GYRE_BATCH_PACKED, lengths, 3);
    run_whole(&w, GYRE_ORDER_FIXED, NULL);
    make_group(&g, &w, GYRE_SHARD_ZIGZAG, t->ranks, 0);
    attention_setup args = shared_args(&w, GYRE_ORDER_FIXED);
    use_data(w.c, &g.data[t->rank], &g.data[t->rank], &args);
    gyre_ring_args ring = GYRE_INIT(gyre_ring_args);
    attention_structs structs;
    ring.transport = t, ring.shards = g.shards, ring.attention = attention_setup_args(&args, &structs);
    const size_t bytes = ring_scratch(&ring, 0, NULL);
    void *scratch = scratch_for(bytes);
    token_data wanted = make_data(w.c, 1, g.info[t->rank].tokens);
    const gyre_cview all = field_cview(w.c, &w.data, F_OUT);
    const gyre_view to = field_view(w.c, &wanted, F_OUT);
    if (gyre_shards_take(g.shards, t->rank, &all, &to, NULL)) exit(3);
    for (int i = 0; i < calls && !status; i++) {
        status = gyre_ring_attention(&ring, (gyre_scratch){scratch, bytes}, NULL, err);
        if (i == 0) write_pid(folder, t->rank);
        if (!status && memcmp(g.data[t->rank].at[F_OUT], wanted.at[F_OUT], field_bytes(w.c, &wanted, F_OUT)) != 0) {
            snprintf(err->text, sizeof err->text, "call %d: other bits than on one rank", i);
            status = GYRE_EFORMAT;
        }
    }
    if (status) return status; /* the memory may still be read */
    free(scratch);
    free_data(&wanted);
    free_group(&g);
    free_whole(&w);
    return status;
}

int main(int argc, char **argv) {
    int provided;
    gyre_mpi *mpi;
    gyre_error err = {0, ""};
    gyre_mpi_config config = GYRE_INIT(gyre_mpi_config);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (argc != 4) return 2;
    config.timeout = strtod(argv[1], NULL);
    if (gyre_mpi_create(&mpi, &config, &err)) return 2;
    const gyre_transport t = gyre_mpi_transport(mpi);
    const gyre_status status = call_often(&t, argv[3], atoi(argv[2]), &err);
    printf("rank %lld: %s\n", (long long)t.rank, status ? err.text : "right");
    fflush(stdout);
    if (status && t.rank != 0) sleep(3); /* a launcher ends all ranks with the first; rank 0 tells its own error by then */
    if (status) _exit(1);                /* MPI_Finalize would wait for the rank that is silent */
    gyre_mpi_free(mpi);
    MPI_Finalize();
    return 0;
}
