/* team_link.h: how the ranks of a team talk.  team_mpi.c has the one over MPI; nothing else knows of MPI. */
#ifndef GYRE_TOOLS_TEAM_LINK_H
#define GYRE_TOOLS_TEAM_LINK_H
#include "gyre/gyre_model.h"

enum { TEAM_HOST = 64 };

/* Where a rank is. */
typedef enum team_step { TEAM_AGREE, TEAM_SAME, TEAM_GATHER, TEAM_SUM, TEAM_SHARE, TEAM_LEAVE } team_step;

/* What a rank says when it gets to a step, and what rank 0 answers. */
typedef struct team_report {
    int32_t step, status, signal, rank; /* signal: that asks the run to stop; 0 = none */
    uint64_t hash, count;               /* of TEAM_SAME; of TEAM_SHARE, GATHER and SUM: bytes of all */
    gyre_error error;
} team_report;

typedef struct team_link {
    int64_t rank, ranks;
    char (*hosts)[TEAM_HOST]; /* [ranks] */
} team_link;

/* out = 0, or -1 with what is wrong in err.  Called in every process that mpirun started. */
int team_link_open(team_link *link, gyre_error *err);
/* Rank 0: reports[r] = the next report of every rank r with waits[r]; at most `seconds`, 0 = as long as it takes.
 * out = 0, or -1 if a report did not come. */
int team_link_collect(team_report *reports, const unsigned char *waits, double seconds);
/* Rank 0: sends the answer to every rank r with waits[r]. */
void team_link_answer(const team_report *answer, const unsigned char *waits);
/* Other ranks: sends the report and waits for the answer, which takes its place. */
void team_link_report(team_report *report);
/* As in gyre_team.  out = 0, or -1 if MPI failed. */
int team_link_gather(void *items, int64_t count, size_t bytes);
int team_link_sum(float *items, int64_t own, int64_t n);
int team_link_share(void *value, size_t bytes);
/* Ends MPI.  abort_status other than 0: and with it all processes, those that do not answer too. */
void team_link_close(int abort_status);

#endif
