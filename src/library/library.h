/* What the files of src/library share: the handle behind include/poseidon.h. It has no logic of its
 * own but whose turn a tensor is: tensors are groups of src/plan and src/sync. */
#ifndef POSEIDON_LIBRARY_LIBRARY_H
#define POSEIDON_LIBRARY_LIBRARY_H

#include <stdatomic.h>

#include "include/poseidon.h"
#include "exchange/exchange.h"
#include "timeline/timeline.h"
#include "util/owner.h"
#include "util/strbuf.h"

/* The options of poseidon_create. */
struct option_string {
    char *given; /* the string. Owned */
    char *text;  /* a copy, cut into words that the other fields borrow. Owned */
    struct exchange_options exchange;
    const char *trace; /* NULL: none */
    int result;        /* the result of poseidon_wait: RESULT_MEAN, ... */
    struct rule rule;
    float rate, trust; /* trust: LARS's ratio; 0: off */
};
enum { RESULT_MEAN, RESULT_SUM, RESULT_VALUES };

/* Parses the option string. The caller frees out->given and out->text, also after a failure. */
int option_string_parse(const char *text, struct option_string *out);

struct member {                    /* a tensor */
    struct poseidon_tensor tensor; /* its name owned */
    enum element_type type;        /* of its gradient */
    struct group_param param;
    size_t begin;        /* in the arenas */
    float *factors_kept; /* a GPU's: those that are posted or skipped, outputs before inputs */
    int64_t posted;      /* iterations; skipped ones, too */
    bool waits;          /* the last of them was not waited for */
    bool factors;        /* they travel in the gradient's place */
};

struct poseidon {
    struct owner owner; /* of groups, work, costs and zeros */
    struct option_string words;
    MPI_Comm comm; /* owned, as all that follows; MPI_COMM_NULL: all that needs MPI has ended */
    int key;       /* of MPI_COMM_SELF's attribute, which MPI_Finalize deletes */
    int rank, nranks;
    struct member *members;
    int nmembers;
    struct device device; /* of the tensors' memory: .i NULL before the first one; .context NULL:
                             the host's, which is `host` from the start on */
    int gpu;              /* the GPU that the tensors lie on, if they do */
    /* from poseidon_start on */
    size_t elems; /* of an arena */
    struct topology hosts;
    struct device host;       /* multiplies on the host */
    struct exchange exchange; /* .sync NULL: not started */
    struct group *groups;
    struct layer_times work; /* a layer is a tensor */
    struct cost *costs;      /* per bucket, where it was */
    float *values, *grads;   /* the arenas: of the node's, where it shares memory */
    float *device_values;    /* the same, where they lie with the tensors */
    float *device_grads;
    struct owner arenas;       /* of a GPU's memory */
    float *zeros;              /* factors of what is skipped */
    int gave;                  /* -1: a result could not be given */
    bool caught_up;            /* library_catch_up, in this iteration */
    const float *left, *right; /* factors that are being posted; borrowed */
    struct trace *trace;       /* NULL: none */
    struct clock_offset clock; /* before the start */
    int64_t began;             /* this iteration, in the trace */
    struct strbuf about;       /* what all ranks, and the runs of a job, must have alike */
    char *plan_text;           /* exchange/saved_plan.h, where auto chose; else "" */
    bool resumes;              /* with the state that poseidon_state_set was given: */
    char *state;               /* on rank 0, until the start */
    char *failure;             /* the message, once it has failed; */
    bool untold;               /* before the start, and the other ranks do not know */
    char *advice;
    int left_to_post;          /* in this iteration */
    float rates[2];            /* of even and odd iterations: one may be under way yet */
    _Atomic int64_t iteration; /* this one; the wire's thread reads it, and: */
    _Atomic int missing;       /* the first tensor that it has neither posted nor skipped */
};

/* ---- where tensors lie (place.c) ---- */

/* Whether the tensor can lie there, beside those that were added. The first one opens the engine.
 */
int library_check_place(struct poseidon *p, const struct poseidon_tensor *tensor,
                        const struct poseidon_place *place);
/* After the nodes are formed; and back, with the engine, when nothing is under way any more.
 * shared: the host's were the node's. */
int library_place_arenas(struct poseidon *p);
void library_free_arenas(struct poseidon *p, bool shared);
/* All tensors' values to the host's arena (DEVICE_FETCH), or from there to the engine's and to
 * their places. Waits. */
int library_move_values(struct poseidon *p, enum device_direction direction);
/* The tensor's gradient, or zeros, into the arena. */
int library_take_gradient(struct poseidon *p, int tensor, bool skipped);
/* The tensor's result goes to its place; a failure is noted in p->gave. */
void library_give_result(struct poseidon *p, int tensor);
/* They become p->left and p->right, for sync to ask for. NULL: zeros. */
int library_take_factors(struct poseidon *p, int tensor, const float *left, const float *right);
/* What is done from now on comes after what the stream was asked for so far; or the other way
 * round. A failure ends the handle, but for tensors in the host's memory. */
int library_check_stream(const struct poseidon *p); /* whether the handle's tensors have streams */
int library_catch_up(struct poseidon *p);           /* before an iteration's first post */
int library_follow(struct poseidon *p, void *stream);
int library_precede(struct poseidon *p, void *stream);

/* From the comparison of what ranks have to a sync that can be started. Collective. */
int library_prepare_all(struct poseidon *p);

/* What was recorded goes into the file; the wire's thread has ended. Collective. */
int library_write_trace(struct poseidon *p);

/* Deals out the state, if one was given. Collective. */
int library_load_state(struct poseidon *p);

/* library_check(p, false) where all ranks call: the failure of one rank ends the handle on all
 * ranks. A `status` other than 0, this rank's own, makes the call fail and does not end the handle.
 * Collective. */
int library_meet(struct poseidon *p, int status);

/* Whether the handle has not failed and is as far as `started` says: 0, or -1 with a message. */
int library_check(const struct poseidon *p, bool started);

/* This thread's message ends the traffic: all ranks get one, and no later call succeeds. -1. */
int library_end(struct poseidon *p);

/* Frees what library_prepare_all made. in_flight: MPI may still use the arenas, which stay.
 * Collective. */
void library_release(struct poseidon *p, bool in_flight);

#endif
