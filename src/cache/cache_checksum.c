/* cache_checksum.c: CRC-32C (Castagnoli), eight bytes at a time. */
#include "cache/cache_file.h"

void gyre_checksum_begin(gyre_checksum *c) {
    const uint32_t polynomial = 0x82f63b78u; /* bits reversed */
    c->sum = 0xffffffffu;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t sum = i;
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? polynomial : 0);
        c->table[0][i] = sum;
    }
    for (int t = 1; t < 8; t++)
        for (uint32_t i = 0; i < 256; i++)
            c->table[t][i] = c->table[t - 1][i] >> 8 ^ c->table[0][c->table[t - 1][i] & 0xff];
}

void gyre_checksum_add(gyre_checksum *c, const void *bytes, size_t count) {
    const unsigned char *p = bytes;
    uint32_t sum = c->sum;
    for (; count >= 8; count -= 8, p += 8) {
        const uint32_t low = sum ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        sum = c->table[7][low & 0xff] ^ c->table[6][low >> 8 & 0xff] ^ c->table[5][low >> 16 & 0xff] ^
              c->table[4][low >> 24] ^ c->table[3][p[4]] ^ c->table[2][p[5]] ^ c->table[1][p[6]] ^ c->table[0][p[7]];
    }
    for (; count > 0; count--)
        sum = sum >> 8 ^ c->table[0][(sum ^ *p++) & 0xff];
    c->sum = sum;
}
