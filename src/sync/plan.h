/* The plan: which scheme moves which group of parameters, how groups are cut into chunks, which server
 * holds which chunk, and how many bytes that puts on the wire. Pure arithmetic: no MPI, the same on
 * every rank, and usable without a cluster. */
#ifndef POSEIDON_SYNC_PLAN_H
#define POSEIDON_SYNC_PLAN_H

#include "net/net.h"

enum scheme {
    SCHEME_NONE, /* nothing to synchronise: the group does not train */
    SCHEME_PS,   /* sharded parameter server */
    SCHEME_SFB,  /* sufficient factor broadcasting */
    SCHEME_ALLREDUCE, /* reduce-scatter and allgather among the workers */
    SCHEME_ADAM,      /* factors to the layer's owner, the whole matrix back */
    SCHEME_ONEBIT,    /* one bit a gradient, with error feedback */
    SCHEMES
};

enum comm_mode {
    COMM_PS,    /* every group by PS */
    COMM_SFB,   /* every factorable group by SFB, the rest by PS */
    COMM_PAPER, /* BestScheme of the paper (Zhang et al., USENIX ATC'17, Algorithm 1) */
};

struct plan_options {
    enum comm_mode comm;
    int nranks;         /* all of them */
    int servers;        /* > 0: that many dedicated server ranks, the last ones; 0: every worker is also
                           a server */
    size_t chunk_bytes; /* most a KV chunk holds; at least 4 */
    int iter_size;      /* micro-batches per iteration: SFB sends the factors of all of them */
    int dilate;         /* > 1: once schemes are chosen, groups shrink to 1/dilate of their elements and
                           factors to 1/dilate of their width: 1/dilate of the bytes. For the replay
                           engine alone */
};

/* A KV pair: a contiguous piece of one group, the unit that a server sums, updates and sends back. */
struct chunk {
    int group;
    size_t begin; /* element offset in the arenas */
    size_t elems;
    int server;   /* index among the servers, 0 .. nservers-1 */
};

struct plan {
    struct plan_options options;
    int nworkers, nservers;
    bool dedicated;      /* servers are ranks of their own */
    int ngroups;
    const struct param_group *groups; /* borrowed from the net, or `dilated` */
    struct param_group *dilated;      /* owned; NULL where dilate <= 1 */
    enum scheme *scheme; /* per group */
    int nchunks;
    struct chunk *chunks; /* group by group */
    int *first_chunk;    /* ngroups + 1: chunks of group g are [first_chunk[g], first_chunk[g+1]) */
};

/* What crosses the network for one rank in one iteration. Own chunks of a worker that is also a server
 * never cross it. Headers: there are none, the signature rides in the message tags. */
struct traffic {
    uint64_t sent, received; /* bytes */
};

/* Chunks of all groups (largest first in each server's account) are dealt to the server with the
 * fewest bytes so far, so that no server is hot. Not collective. */
int plan_create(const struct plan_options *options, int ngroups, const struct param_group *groups,
                struct plan **out);
void plan_destroy(struct plan *plan);

/* BestScheme: true where SFB is to move an m x n fully connected layer with k rows per worker:
 * 2k(P1-1)(m+n) <= 2mn(P1+P2-2)/P2, ties go to SFB. Exact integer arithmetic. */
bool plan_prefers_sfb(int64_t m, int64_t n, int64_t k, int64_t nworkers, int64_t nservers);

/* World rank of server s; of worker w (which is w). Index of a rank among servers, -1 if none. */
int plan_server_rank(const struct plan *plan, int server);
int plan_server_index(const struct plan *plan, int rank);
bool plan_is_worker(const struct plan *plan, int rank);

/* Bytes of group g in one iteration at that rank. */
struct traffic plan_traffic(const struct plan *plan, int group, int rank);

/* "PS", "SFB", "allreduce", "Adam", "1-bit", "-". */
const char *scheme_name(enum scheme scheme);

/* "ps", "sfb", "paper"; fails with the list. */
int comm_mode_parse(const char *text, enum comm_mode *out);

/* A number that differs when two ranks' plans (or the extra words given) differ. */
uint64_t plan_digest(const struct plan *plan, uint64_t seed);

#endif
