/* encoding.h: what is inside a gyre_encoding, and the row-level services that attention asks of it.
 *
 * A scheme is one file under src/encodings/ that fills one gyre_scheme; registry.c lists them.  Nothing outside those
 * files knows a scheme by name: attention, model and trainer ask the object. */
#ifndef GYRE_CORE_ENCODING_H
#define GYRE_CORE_ENCODING_H
#include "core/rotation/frequency.h"
#include "gyre/gyre.h"
#include "kernels/kernels.h"
#include "util/error.h"

/* WebAssembly has threads where it is built to have them, by -pthread. */
#if defined(__wasm__) && !defined(_REENTRANT)
#define GYRE_HAS_THREADS 0
#else
#define GYRE_HAS_THREADS 1
#endif

/* A position past this magnitude is refused: the angle's error bound is stated up to it. */
#define GYRE_MAX_POSITION ((int64_t)1 << 31)

/* One tile of scores under work. */
typedef struct gyre_bias_tile {
    const int64_t *q, *k;   /* positions */
    const int64_t *nearest; /* [queries]: the position relative to whose bias those of the row are */
    int64_t queries, keys, ld;
    float *scores; /* [queries][ld] */
} gyre_bias_tile;

/* n keys as one query of one head sees them. */
typedef struct gyre_bias_row {
    int64_t head, q;
    const int64_t *k;
    int64_t n;
} gyre_bias_row;

/* From distance to table row: key at n, query at m, row[clamp(n - m, -reach, reach) + reach].  Every table of an encoding
 * that is indexed by distance uses the one map; row NULL = none is. */
typedef struct gyre_distance_map {
    int64_t clip_distance;
    int monotone_step; /* d = 1 or -1: from one distance to the next the row stays or changes by d; 0: neither */
    int32_t *row;      /* [2 reach + 1] */
} gyre_distance_map;

/* What gyre_encoding_table_shape tells; rows 0 = no such table. */
typedef struct gyre_table_size {
    int64_t heads, rows, channels;
} gyre_table_size;
enum { GYRE_TABLE_COUNT = GYRE_TABLE_POSITION_BIAS + 1 };

/* The rows of the input table that p of a position is made of, at least one, and the share of each, in the order they are
 * summed. */
enum { GYRE_MAX_WEIGHTED_ROWS = 3 };
typedef struct gyre_weighted_rows {
    int count;
    int64_t row[GYRE_MAX_WEIGHTED_ROWS];
    double weight[GYRE_MAX_WEIGHTED_ROWS];
} gyre_weighted_rows;

typedef struct gyre_angle_table gyre_angle_table; /* angle_table.h */

typedef struct gyre_scheme {
    gyre_kind kind;
    const char *name; /* as the command and config.json spell it */
    unsigned places;
    /* Checks the config and completes the encoding (defaults into encoding->config, owned arrays). */
    gyre_status (*init)(gyre_encoding *encoding, gyre_error *err);
    /* Fills in fields that the scheme needs and config leaves at zero (gyre_config_suggest).  NULL where there are none. */
    void (*suggest)(gyre_config *config);
    /* Input place, one of the two: p(position) is linear in rows of the table, or fixed, row[c] = p(position)[first + c] for
     * c < count, in double.  What is added is input.scale times it, and where a fixed one has a table all the same, times
     * the one number there: add.c multiplies. */
    gyre_weighted_rows (*input_weighted_rows)(const gyre_encoding *encoding, int64_t position);
    void (*input_row)(const gyre_encoding *encoding, int64_t position, int64_t first, int64_t count, double *row);
    /* The same, whole, times factor, in float, where it is kept: 1; else 0, and nothing is done.  NULL = never. */
    int (*input_row_f32)(const gyre_encoding *encoding, int64_t position, float factor, float *row);
    /* b falls or grows with |k - q| without bound: attention forms the scores of a row relative to its nearest key's b. */
    int decays;
    /* Score place: out[j] = b(head, q, k[j]) for n keys, in double.  NULL where there is none.  Without a bias_tile of its
     * own a scheme promises that b depends on k - q alone: attention then asks once for each distance in a tile. */
    void (*bias_row)(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row, double *out);
    /* gradient += that of sum over j of dscore[j] b(head, q, k[j]) to the bias table, into column `column` of a view shaped
     * as the table.  NULL where the scheme trains none. */
    void (*bias_row_gradient)(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row,
                              const double *dscore, const gyre_view *gradient, int64_t column);
    /* Score place for a tile, in float: scores[i * ld + j] += b(head, q[i], k[j]).  Where the scheme decays, minus b(head,
     * q[i], nearest[i]), the difference formed before it is rounded: the bias itself may be so large that float does not
     * tell neighbours apart. */
    void (*bias_tile)(const gyre_encoding *encoding, const gyre_tables *tables, int64_t head, const gyre_bias_tile *tile);
    gyre_row_source row_source;
    /* Changes *entry, filled in with what most tables ask for, to what entry [row, channel] of the table `which` asks for.
     * NULL where that is nothing else. */
    void (*table_entry)(const gyre_encoding *encoding, gyre_table which, int64_t row, int64_t channel,
                        gyre_table_entry *entry);
} gyre_scheme;

struct gyre_encoding {
    gyre_config config; /* complete; its pointers point to the arrays below */
    const gyre_scheme *scheme;
    const gyre_kernels *kernels;
    gyre_alloc alloc;
    int uses_malloc;                       /* 1: alloc is malloc, which hands out pages when they are touched */
    unsigned places;                       /* the scheme's, unless init found fewer */
    int64_t first_position, last_position; /* what the scheme can represent, both included */
    double *slopes, *slopes_after;         /* [heads]; after: NULL = the same */
    double slope_divisor;                  /* what those are divided by, where there are any */
    double *short_factor, *long_factor;    /* [rope.dim / 2] */
    gyre_frequency *frequency;             /* [rope.dim / 2] at the encoding's own length; sinusoid: [input.dim / 2] */
    double attention_factor;               /* multiplies cos and sin at that length; 1 where nothing turns */
    unsigned char *axis;                   /* [rope.dim / 2]: which axis a pair turns by; NULL = all by axis 0 */
    double *xpos_log2_decay; /* [rope.dim / 2], xPos: log2 of what a pair shrinks by per position; NULL = none */
    gyre_table_size table[GYRE_TABLE_COUNT]; /* what the caller trains */
    gyre_distance_map distance_map;
    double *fixed_table;      /* [2 reach + 1][head_dim]: a table nobody trains, for the sides in fixed_terms */
    unsigned fixed_terms;     /* GYRE_TERM_* */
    double score_terms;       /* the default scale is 1 / sqrt(head_dim score_terms) */
    gyre_angle_table *angles; /* for positions from 0 to rope.table_positions - 1, or NULL */
};

/* The scheme of a kind, or NULL (src/encodings/registry.c). */
const gyre_scheme *gyre_scheme_find(gyre_kind kind);

/* out = count elements of `size` bytes from the encoding's allocator, or NULL with err filled.  For a scheme's init. */
void *gyre_encoding_allocate(const gyre_encoding *encoding, int64_t count, size_t size, gyre_error *err);

/* Checks the fields that all additions have, and fills in their defaults.  For a scheme's init. */
gyre_status gyre_input_config_check(gyre_encoding *encoding, gyre_error *err);

/* -- tables indexed by distance (rows.c) -- */

/* Makes encoding->map from r(n - m) = row(encoding, n - m).  For a scheme's init. */
gyre_status gyre_distance_map_make(gyre_encoding *encoding, int64_t clip_distance,
                                   int64_t (*row)(const gyre_encoding *, int64_t distance), gyre_error *err);
/* EINVAL and the reason where the config asks for a table on a side that is none of `known` (GYRE_TERM_*).  For a scheme's
 * init. */
gyre_status gyre_terms_check(const gyre_encoding *encoding, unsigned known, gyre_error *err);
/* The vector tables of the sides in `terms`, [heads][rows][head_dim] each.  For a scheme's init. */
void gyre_vector_tables_declare(gyre_encoding *encoding, unsigned terms, int64_t heads, int64_t rows);
static inline int32_t gyre_distance_map_row(const gyre_distance_map *map, int64_t distance) {
    const int64_t low = distance < -map->clip_distance ? -map->clip_distance : distance,
                  clipped = low > map->clip_distance ? map->clip_distance : low;
    return map->row[clipped + map->clip_distance];
}
/* bias_row and bias_row_gradient of a scheme that adds bias[r][head]. */
void gyre_table_bias_row(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row, double *out);
void gyre_table_bias_row_gradient(const gyre_encoding *encoding, const gyre_tables *tables, const gyre_bias_row *row,
                                  const double *dscore, const gyre_view *gradient, int64_t column);

/* The view `which` of tables, NULL where tables is. */
const gyre_cview *gyre_table_of(const gyre_tables *tables, gyre_table which);
const gyre_view *gyre_table_gradient_of(const gyre_table_gradients *gradients, gyre_table which);
/* 1: the scheme has that table, trained or fixed; *view (not NULL) = it. */
int gyre_vector_table_view(const gyre_encoding *encoding, const gyre_tables *tables, gyre_table which, gyre_cview *view);
/* GYRE_OK where the scheme trains no table `which`, or `table` is one; else EINVAL (no memory), EDTYPE, ESHAPE. */
gyre_status gyre_table_check(const gyre_encoding *encoding, gyre_table which, const gyre_cview *table);
/* The same for where a gradient goes; missing memory is fine. */
gyre_status gyre_table_gradient_check(const gyre_encoding *encoding, gyre_table which, const gyre_view *gradient);

/* -- rows turned for attention (turn.c), where the encoding turns any -- */
typedef struct gyre_rotation_spec {
    gyre_role role;
    int far; /* as pairs of query and key at rope.far_window or further */
    int64_t length, batch;
    const gyre_positions *positions;
    double center;                        /* xPos: magnitudes are relative to this position */
    const struct gyre_angle_steps *steps; /* at that length, or NULL: consecutive positions by them */
} gyre_rotation_spec;
/* out = the rows of all `count` tokens where the encoding keeps them one after the other, in its own memory; or NULL. */
const float *gyre_rotation_cached_rows(const gyre_encoding *encoding, const gyre_rotation_spec *spec, int64_t count);
/* 1: so many tokens, the highest position of which is that, are better turned by steps made for the call (angle_table.h). */
int gyre_rotation_steps_worthwhile(const gyre_encoding *encoding, int64_t length, int64_t highest, int64_t tokens);
size_t gyre_rotation_steps_bytes(const gyre_encoding *encoding);
/* rows[i] = cos[rope.dim / 2], sin[rope.dim / 2] of token first + i, attention factor included.  Positions were checked. */
void gyre_rotation_angles(const gyre_encoding *encoding, const gyre_rotation_spec *spec, int64_t first, int64_t count,
                          float *rows);
/* x[i * stride + c], c < head_dim: row i turned in place by angles[i], within its layout; back 1: by the transpose. */
void gyre_rotate_rows(const gyre_encoding *encoding, const float *angles, int64_t rows, float *x, int64_t stride,
                      int negate_sine);
/* Rows x[i * stride + c], turned in place by sign x shift[axis] positions, all alike and without the attention factor: of
 * rows that have E already.  sign: 1 or -1. */
typedef struct gyre_strided_rows {
    int64_t rows, stride;
    float *x;
} gyre_strided_rows;
void gyre_rotate_rows_by_shift(const gyre_encoding *encoding, int64_t length, const int64_t *shift, int sign,
                               const gyre_strided_rows *to);
/* factor[c] = what xPos multiplies channel c by over a distance: queries relative to a and keys relative to b meet with a
 * distance of a - b. */
void gyre_xpos_decay_factors(const gyre_encoding *encoding, int64_t distance, int64_t channels, float *factor);

/* GYRE_OK, or EDTYPE / ERANGE for positions outside what `encoding` (NULL = any) accepts. */
gyre_status gyre_positions_check(const gyre_encoding *encoding, const gyre_positions *positions, int64_t batch,
                                 int64_t tokens);
/* out = axis `axis` of the position of a token. */
int64_t gyre_position_at(const gyre_positions *positions, int64_t batch, int64_t token, int64_t axis);
/* out[i] = position (axis 0) of token first + i of batch row `batch`. */
void gyre_positions_read(const gyre_positions *positions, int64_t batch, int64_t first, int64_t count, int64_t *out);

/* out = what a query at `position` is multiplied by (gyre_temperature), 1 where nothing is asked. */
double gyre_temperature_at(const gyre_encoding *encoding, int64_t position);

/* exec->run, or a plain loop where exec is NULL. */
void gyre_parallel(const gyre_exec *exec, void (*fn)(void *arg, int64_t i), void *arg, int64_t n);
/* The most calls exec may have under way at once, at least 1. */
int64_t gyre_exec_concurrency(const gyre_exec *exec);

#endif
