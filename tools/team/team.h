/* team.h: the processes that mpirun started, as one run of a subcommand.
 *
 * Every rank runs the same subcommand with the same options on the same files, step by step.  Windows, trials, candidates
 * and groups of a batch are dealt out whole (gyre_team), and every rank gets all results, so that all take the same way on.
 * Rank 0 alone prints, writes files and holds locks.  What only rank 0 can know, such as what a journal holds, it shares.
 *
 * Without mpirun there is no team: team_get is NULL, every process leads, and the calls here return at once. */
#ifndef GYRE_TOOLS_TEAM_H
#define GYRE_TOOLS_TEAM_H
#include "gyre/gyre_model.h"
#include <jansson.h>

/* Called by main before the subcommand.  shares 0: it is one process's work.  Ends the process, with one error of rank 0, if
 * mpirun started several and this one cannot be shared, or if builds, options or arithmetic of the ranks differ. */
void team_join(const char *command, int shares, int argc, char **argv);
/* Called once after it; also at exit.  status: the exit status of this rank.  out = the same, or CLI_FAILED if the others
 * failed. */
int team_leave(int status);

/* out = for options of the library; NULL = one process. */
const gyre_team *team_get(void);
int team_leads(void); /* 1: this process prints and writes */
int64_t team_ranks(void);
/* The progress callback of the library, ctx: a cli_progress.  A rank counts its own tokens; the others are as far. */
void team_progress_step(void *progress, int64_t tokens, int64_t all);

/* Every rank makes these calls at the same point.  After a failure no rank continues. */
/* out = the first failure of any rank. */
gyre_status team_agree(gyre_status status, gyre_error *err);
/* EINVAL, naming the rank and `what`, unless all ranks have the same hash. */
gyre_status team_same(const char *what, uint64_t hash, gyre_error *err);
/* value[0 .. bytes - 1] = those of rank 0. */
gyre_status team_share(void *value, size_t bytes, gyre_error *err);
/* *value = rank 0's JSON; that of others is released.  status: of rank 0's work that made it, seen by all. */
gyre_status team_share_json(gyre_status status, json_t **value, gyre_error *err);

#endif
