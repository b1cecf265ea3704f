/* gyre_mpi.h: the transport of gyre_ring.h over MPI.  libgyre_mpi, built with GYRE_MPI=ON; libgyre does not depend on MPI.
 *
 *     MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
 *     gyre_mpi *mpi = NULL;
 *     MPI_Comm group = MPI_COMM_WORLD;
 *     gyre_mpi_config config = GYRE_INIT(gyre_mpi_config);
 *     config.comm = &group;
 *     gyre_status status = gyre_mpi_create(&mpi, &config, &err);
 *     const gyre_transport transport = gyre_mpi_transport(mpi);
 *
 * This header does not include mpi.h, so a program compiles without it.  The conventions of gyre.h hold. */
#ifndef GYRE_MPI_H
#define GYRE_MPI_H
#include "gyre/gyre_ring.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gyre_mpi gyre_mpi;
typedef struct gyre_mpi_config {
    size_t size;      /* set by GYRE_INIT */
    const void *comm; /* an MPI_Comm, duplicated; NULL = MPI_COMM_WORLD */
    double timeout;   /* seconds after which an unfinished exchange fails (EIO); 0 = 300 */
} gyre_mpi_config;

/* *out = a transport between the ranks of config->comm, all of which make this call after MPI_Init.
 * Errors: EINVAL, ENOMEM, EIO (MPI failed). */
GYRE_API GYRE_MUST_CHECK gyre_status gyre_mpi_create(gyre_mpi **out, const gyre_mpi_config *config, gyre_error *err);
/* NULL is fine.  All ranks make this call, before MPI_Finalize. */
GYRE_API void gyre_mpi_free(gyre_mpi *mpi);
/* out = the transport; valid as long as mpi.  Its calls come from one thread at a time.  After an exchange has failed,
 * those with the same ranks fail too (EIO): free the transport and, if MPI still runs, create another.  A partly received
 * message cannot be cancelled: the transport waits a second for its end, and memory of the exchange may be written
 * later. */
GYRE_API gyre_transport gyre_mpi_transport(gyre_mpi *mpi);

#ifdef __cplusplus
}
#endif
#endif /* GYRE_MPI_H */
