/* thread_network.h: a gyre_transport between threads of one process, each of which plays a rank. */
#ifndef GYRE_TESTS_THREAD_NETWORK_H
#define GYRE_TESTS_THREAD_NETWORK_H
#include "gyre/gyre_ring.h"
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_THREADS = 7 };

/* What one rank has begun on one channel.  The rank it comes from copies into `receive`. */
typedef struct mailbox {
    gyre_exchange exchange;
    int open, filled, sent; /* open: begun and not waited for; filled: received; sent: the other has it */
} mailbox;

typedef struct network {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mailbox box[MOST_THREADS][GYRE_TRANSPORT_CHANNELS];
    int fail_at;        /* this many exchanges from now on fail; 0 = none does */
    double timeout;     /* seconds; 0 = none */
    int64_t spoiled_by; /* 1 + the rank whose first message gets another number at `spoiled_at`; 0 = none */
    size_t spoiled_at;
    int64_t polls; /* calls of progress */
    int late;      /* 1: progress never says that an exchange is done */
} network;

/* A thread cannot fail a test of cmocka: it ends the program. */
static inline void expect_ok(gyre_status status, const gyre_error *err) {
    if (!status) return;
    fprintf(stderr, "a rank failed: %s: %s\n", gyre_status_text(status), err->text);
    abort();
}

typedef struct endpoint {
    network *net;
    int64_t rank;
} endpoint;

/* Moves what can be moved on a channel.  The lock is held. */
static inline void deliver(network *net, int channel) {
    for (int64_t to = 0; to < MOST_THREADS; to++) {
        mailbox *in = &net->box[to][channel];
        if (!in->open || in->filled) continue;
        mailbox *out = &net->box[in->exchange.from][channel];
        if (!out->open || out->sent || out->exchange.to != to) continue;
        if (out->exchange.sent != in->exchange.received) abort();
        if (out->exchange.sent > 0) memcpy(in->exchange.receive, out->exchange.send, out->exchange.sent);
        if (net->spoiled_by == 1 + in->exchange.from && out->exchange.sent > 0) {
            ((char *)in->exchange.receive)[net->spoiled_at]++;
            net->spoiled_by = 0;
        }
        in->filled = out->sent = 1;
    }
    pthread_cond_broadcast(&net->changed);
}

static inline gyre_status network_begin(void *ctx, int channel, const gyre_exchange *exchange) {
    const endpoint *e = ctx;
    mailbox *box = &e->net->box[e->rank][channel];
    pthread_mutex_lock(&e->net->lock);
    const int fails = e->net->fail_at > 0 && --e->net->fail_at == 0;
    if (!fails) {
        if (box->open) abort();
        *box = (mailbox){*exchange, 1, exchange->received == 0, exchange->sent == 0}; /* no bytes, no message */
        deliver(e->net, channel);
    }
    pthread_mutex_unlock(&e->net->lock);
    return fails ? GYRE_EIO : GYRE_OK;
}

static inline gyre_status network_wait(void *ctx, int channel) {
    const endpoint *e = ctx;
    mailbox *box = &e->net->box[e->rank][channel];
    struct timespec end;
    int late = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    const double until = (double)end.tv_nsec * 1e-9 + e->net->timeout;
    end.tv_sec += (time_t)until;
    end.tv_nsec = (long)((until - (double)(time_t)until) * 1e9);
    pthread_mutex_lock(&e->net->lock);
    while ((!box->filled || !box->sent) && !late) {
        if (e->net->timeout > 0)
            late = pthread_cond_timedwait(&e->net->changed, &e->net->lock, &end) == ETIMEDOUT;
        else
            pthread_cond_wait(&e->net->changed, &e->net->lock);
    }
    box->open = 0;
    pthread_mutex_unlock(&e->net->lock);
    return late ? GYRE_EIO : GYRE_OK;
}

static inline gyre_status network_progress(void *ctx, int channel, int *done) {
    const endpoint *e = ctx;
    mailbox *box = &e->net->box[e->rank][channel];
    pthread_mutex_lock(&e->net->lock);
    *done = box->filled && box->sent && !e->net->late;
    e->net->polls++;
    pthread_mutex_unlock(&e->net->lock);
    return GYRE_OK;
}

static inline void open_network(network *net) {
    memset(net, 0, sizeof *net);
    pthread_mutex_init(&net->lock, NULL);
    pthread_cond_init(&net->changed, NULL);
}

static inline void close_network(network *net) {
    pthread_cond_destroy(&net->changed);
    pthread_mutex_destroy(&net->lock);
}

static inline gyre_transport network_transport(endpoint *e, int64_t ranks) {
    gyre_transport t = GYRE_INIT(gyre_transport);
    t.rank = e->rank;
    t.ranks = ranks;
    t.ctx = e;
    t.begin = network_begin;
    t.wait = network_wait;
    t.progress = network_progress;
    t.timeout = e->net->timeout;
    return t;
}

#endif
