/* attend_pages.c: keys and values in an engine's own pages, with the table of pages of FlashInfer. */
#include "example.h"

enum { PAGES = 8, PAGE = 4, HEADS = 4, KV_HEADS = 2, DIM = 16, TOKENS = 10 };

static float k[PAGES][PAGE][KV_HEADS][DIM], v[PAGES][PAGE][KV_HEADS][DIM], q[2][HEADS][DIM], out[2][HEADS][DIM];

int main(void) {
    fill(&k[0][0][0][0], PAGES * PAGE * KV_HEADS * DIM, 1);
    fill(&v[0][0][0][0], PAGES * PAGE * KV_HEADS * DIM, 2);
    fill(&q[0][0][0], 2 * HEADS * DIM, 3);
    gyre_encoding *rope = NULL;
    check(gyre_rope_create(&rope, DIM, 10000, GYRE_LAYOUT_HALF, &err));

    /* [gyre_rotate_pages gyre_paged_attention gyre_paged_attention_scratch] */
    const int32_t indices[] = {6, 0, 3, 5}, indptr[] = {0, 3, 4}, last_page_len[] = {2, 1}; /* of 10 tokens, and of 1 */
    gyre_pages pages = GYRE_INIT(gyre_pages);
    pages.k = gyre_cdense(k, GYRE_DTYPE_F32, PAGES, PAGE, KV_HEADS, DIM); /* other orders: other strides */
    pages.v = gyre_cdense(v, GYRE_DTYPE_F32, PAGES, PAGE, KV_HEADS, DIM);
    pages.indices = indices, pages.indptr = indptr, pages.last_page_len = last_page_len;
    pages.sequences = 2;

    gyre_rotate_pages_args turn = GYRE_INIT(gyre_rotate_pages_args); /* once for each key, when it is new */
    turn.pages = &pages;
    turn.k = gyre_dense(k, GYRE_DTYPE_F32, PAGES, PAGE, KV_HEADS, DIM);
    check(gyre_rotate_pages(rope, &turn, NULL, &err));
    const int64_t at[2] = {9, 0}; /* the queries are the last tokens */
    const gyre_positions positions = {.data = at, .dtype = GYRE_DTYPE_I64, .stride_batch = 1};
    const gyre_view queries = gyre_dense(q, GYRE_DTYPE_F32, 2, 1, HEADS, DIM);
    check(gyre_rotate(rope, GYRE_ARGS(gyre_rotate_args, .positions = &positions, .in = gyre_const(queries), .out = queries),
                      NULL, &err));

    gyre_attention_args args = GYRE_INIT(gyre_attention_args); /* without an encoding: all is rotated */
    args.q = gyre_const(queries);
    args.out = gyre_dense(out, GYRE_DTYPE_F32, 2, 1, HEADS, DIM);
    args.causal = GYRE_CAUSAL_BY_POSITION;
    size_t bytes;
    check(gyre_paged_attention_scratch(&args, &pages, NULL, &bytes, &err));
    const gyre_scratch scratch = take_scratch(bytes);
    check(gyre_paged_attention(&args, &pages, scratch, NULL, &err));
    free(scratch.memory);
    expect(most_apart(&out[1][1][0], &v[5][0][0][0], DIM) < 1e-6); /* it sees its own token alone */
    /* [end] */
    gyre_encoding_free(rope);
    return 0;
}
