/* audit_angles.c: a table of cos and sin, as an engine keeps it, against a config.
 *   audit_angles FOLDER CONFIG    CONFIG: that of Llama 3.1 8B */
#include "example.h"
#include <gyre/gyre_angles.h>

enum { POSITIONS = 256, PAIRS = 64 };

/* A .npy of f32 numbers, [POSITIONS, 2 * PAIRS]. */
static void write_npy(const char *path, const float *numbers) {
    static const char header[] = "\x93NUMPY\x01\0\x3e\0{'descr': '<f4', 'fortran_order': False, 'shape': (256, 128)}\n";
    FILE *file = fopen(path, "wb");
    expect(file && fwrite(header, 1, sizeof header - 1, file) == sizeof header - 1 &&
           fwrite(numbers, sizeof *numbers, 2 * PAIRS * POSITIONS, file) == 2 * PAIRS * POSITIONS && fclose(file) == 0);
}

/* The table of base 10000, where the config says 500000. */
static void fill_table(float *numbers) {
    for (int m = 0; m < POSITIONS; m++)
        for (int i = 0; i < PAIRS; i++) {
            const double angle = m * pow(10000, -i / (double)PAIRS);
            numbers[2 * PAIRS * m + i] = (float)cos(angle);
            numbers[2 * PAIRS * m + PAIRS + i] = (float)sin(angle);
        }
}

int main(int argc, char **argv) {
    static float numbers[2 * PAIRS * POSITIONS];
    char path[4096];
    if (argc < 3) return fprintf(stderr, "usage: audit_angles FOLDER CONFIG\n"), 2;
    snprintf(path, sizeof path, "%s/cos_sin_cache.npy", argv[1]);
    fill_table(numbers);
    write_npy(path, numbers);

    /* [gyre_angles_audit gyre_angle_audit_free gyre_angle_tables_open gyre_angle_tables_free] */
    gyre_reading *reading = NULL;
    gyre_angle_tables *tables = NULL;
    gyre_angle_audit *audit = NULL;
    check(gyre_reading_open(&reading, argv[2], NULL, &err));
    check(gyre_angle_tables_open(&tables, path, &err)); /* or a gyre_cview of memory */
    const gyre_reading *readings[] = {reading};         /* or one for each profile */
    check(gyre_angles_audit(&audit, &tables->tables[0].view, readings, 1, &err));
    if (audit->matches[0].first_position >= 0) printf("%s\n", audit->verdict);
    /* [end] */
    expect(audit->matches[0].first_position == 1 && fabs(audit->base - 10000) < 10);

    /* [gyre_angle_form_name gyre_angle_columns_name gyre_angle_precision_name] */
    printf("%s, %s, %s\n", gyre_angle_form_name(audit->form), gyre_angle_columns_name(audit->columns),
           gyre_angle_precision_name(audit->matches[0].precision)); /* cos-sin, once, f32 */
    /* [end] */
    expect(strcmp(gyre_angle_form_name(audit->form), "cos-sin") == 0);
    gyre_angle_audit_free(audit);
    gyre_angle_tables_free(tables);
    gyre_reading_free(reading);
    return 0;
}
