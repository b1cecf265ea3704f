/* positions.h: reading gyre_positions. */
#ifndef GYRE_CORE_POSITIONS_H
#define GYRE_CORE_POSITIONS_H
#include "gyre/gyre.h"

/* Largest magnitude of a position.  The error bound of angles holds up to here; larger positions are refused. */
#define GYRE_MAX_POSITION ((int64_t)1 << 31)

/* How many there are, and the elements from head to head. */
typedef struct gyre_positions_extent {
    int64_t batch, tokens, axes, heads, head_stride;
} gyre_positions_extent;
/* The positions in memory, if there are any.  Errors: EDTYPE, EINVAL (misaligned, strides past any memory). */
gyre_status gyre_positions_memory_check(const gyre_positions *positions, const gyre_positions_extent *extent,
                                        const char *name, const char *where, gyre_error *err);
/* Checks the positions of batch x tokens tokens against what `encoding` (NULL = any) accepts.  name and where: of the
 * argument and of the function the user called, for err, which may be NULL.
 * Errors: EINVAL (NULL, or a negative length), EDTYPE, ERANGE. */
gyre_status gyre_positions_check(const gyre_encoding *encoding, const gyre_positions *positions, int64_t batch,
                                 int64_t tokens, const char *name, const char *where, gyre_error *err);
/* out = the positions of batch row `batch` alone; base counts up from the same number in every row. */
gyre_positions gyre_positions_of_row(const gyre_positions *positions, int64_t batch);
/* out = axis `axis` of the position of a token. */
int64_t gyre_position_at(const gyre_positions *positions, int64_t batch, int64_t token, int64_t axis);
/* out[i] = position (axis 0) of token first + i of batch row `batch`. */
void gyre_positions_read(const gyre_positions *positions, int64_t batch, int64_t first, int64_t count, int64_t *out);
/* out[i * axes + a] = axis a of the position of token first + i, for the axes of the encoding (gyre_axes_of). */
void gyre_positions_read_axes(const gyre_encoding *encoding, const gyre_positions *positions, int64_t batch, int64_t first,
                              int64_t count, double *out);

#endif
