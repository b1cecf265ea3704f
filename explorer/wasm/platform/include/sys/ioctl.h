/* ioctl.h: there is no terminal whose width could be asked for. */
#ifndef GYRE_PLATFORM_IOCTL_H
#define GYRE_PLATFORM_IOCTL_H
struct winsize {
    unsigned short ws_row, ws_col;
};
enum { TIOCGWINSZ = 0x5413 };
static inline int ioctl(int fd, int request, void *size) {
    (void)fd, (void)request, (void)size;
    return -1;
}
#endif
