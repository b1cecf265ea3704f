/* report_angles.c: the colours of angles, the same in every figure, report and view. */
#include "report/report.h"
#include <math.h>

static int clipped(double part) {
    return (int)lround(255 * fmin(1, fmax(0, part)));
}

/* OKLab to sRGB, 0xRRGGBB. */
static int from_oklab(double lightness, double a, double b) {
    const double l = pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3),
                 m = pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3),
                 s = pow(lightness - 0.0894841775 * a - 1.291485548 * b, 3);
    const double linear[3] = {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
                              -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                              -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s};
    int color = 0;
    for (int i = 0; i < 3; i++)
        color = color << 8 | clipped(linear[i] <= 0.0031308 ? 12.92 * linear[i] : 1.055 * pow(linear[i], 1 / 2.4) - 0.055);
    return color;
}

int gyre_report_angle_color(double angle, double resultant) {
    const double part = fmin(1, resultant * resultant * 1.6), side = sin(angle) * part;
    return from_oklab(0.64 + 0.31 * cos(angle) * part, 0.055 * side, 0.115 * side);
}

int gyre_report_excess_color(double excess) {
    static const int just[3] = {255, 196, 37}, far[3] = {178, 0, 32};
    const double strength = gyre_report_excess_strength(excess);
    int color = 0;
    for (int i = 0; i < 3; i++)
        color = color << 8 | (int)lround(just[i] + (far[i] - just[i]) * strength);
    return color;
}

double gyre_report_excess_strength(double excess) {
    return sqrt(fmin(1, fmax(0, excess)));
}
