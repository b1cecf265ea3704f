/* test_huge_pages.c: large memory that is read at random asks for huge pages, as /proc/self/smaps shows. */
#define _DEFAULT_SOURCE /* madvise */
#include "core/huge_pages.h"
#include "gyre/gyre_cache.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 2 << 20 };

/* 1: the mapping of the address asks for them; 0: it does not; -1: unknown. */
static int asked_at(const void *address) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    int inside = 0, asked = -1;
    if (!maps) return -1;
    while (fgets(line, sizeof line, maps)) {
        char *dash, *space;
        const unsigned long long first = strtoull(line, &dash, 16), end = *dash == '-' ? strtoull(dash + 1, &space, 16) : 0;
        if (*dash == '-' && *space == ' ')
            inside = (uintptr_t)address >= first && (uintptr_t)address < end;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            asked = strstr(line, " hg") != NULL;
    }
    fclose(maps);
    return asked;
}

/* Asks without the library. Emulated systems and kernels without huge pages do not show it. */
static int system_has_them(void) {
    void *memory = aligned_alloc(PAGE, (size_t)2 * PAGE);
    assert_non_null(memory);
    const int has = madvise(memory, (size_t)2 * PAGE, MADV_HUGEPAGE) == 0 && asked_at(memory) == 1;
    free(memory);
    return has;
}

/* The cache lies inside what its allocator returned, which begins with a huge page. All whole huge pages in it must ask. */
static void *last_memory;
static void *note_memory(void *ctx, size_t bytes, size_t align) {
    (void)ctx;
    return last_memory = aligned_alloc(align, (bytes + align - 1) / align * align);
}
static void give_back(void *ctx, void *memory) {
    (void)ctx;
    free(memory);
}

static void caches_request_huge_pages(void **state) {
    (void)state;
    gyre_cache_config config = GYRE_INIT(gyre_cache_config);
    gyre_cache *cache = NULL;
    const gyre_alloc alloc = {note_memory, give_back, NULL};
    config.heads = 8;
    config.head_dim = 128;
    config.max_tokens = 8192; /* 64 MiB */
    assert_int_equal(gyre_cache_create(&cache, &config, &alloc, NULL), GYRE_OK);
    const int asked = system_has_them() ? asked_at((const char *)last_memory + (size_t)4 * PAGE) : -1;
    gyre_cache_free(cache);
    if (asked < 0) skip();
    assert_int_equal(asked, 1);
    assert_int_equal((uintptr_t)last_memory % PAGE, 0);
}

/* Memory without a whole huge page is left alone, and contents are preserved. */
static void contents_are_preserved(void **state) {
    (void)state;
    unsigned char *memory = aligned_alloc(PAGE, (size_t)3 * PAGE);
    assert_non_null(memory);
    memset(memory, 7, (size_t)3 * PAGE);
    gyre_huge_pages_advise(memory + 1, PAGE);
    const int without = asked_at(memory + PAGE);
    gyre_huge_pages_advise(memory + 1, (size_t)2 * PAGE);
    const int with = asked_at(memory + PAGE), before = asked_at(memory + 1), after = asked_at(memory + (size_t)2 * PAGE);
    for (size_t i = 0; i < (size_t)3 * PAGE; i++)
        assert_int_equal(memory[i], 7);
    gyre_huge_pages_advise(NULL, 0);
    free(memory);
    if (without < 0 || !system_has_them()) skip();
    assert_int_equal(without, 0);
    assert_int_equal(with, 1);
    assert_int_equal(before, 0);
    assert_int_equal(after, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_request_huge_pages),
        cmocka_unit_test(contents_are_preserved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
