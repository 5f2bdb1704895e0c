/* The handle behind include/poseidon.h, shared by the files of src/comm/library. Its only logic is
 * the order of posts and waits: tensors are groups of src/comm/plan and src/comm/sync. */
#ifndef POSEIDON_LIBRARY_LIBRARY_H
#define POSEIDON_LIBRARY_LIBRARY_H

#include <stdatomic.h>

#include "include/poseidon.h"
#include "exchange/exchange.h"
#include "timeline/timeline.h"
#include "util/owner.h"
#include "util/strbuf.h"

/* Parsed options of poseidon_create. */
struct option_string {
    char *given; /* the option string. Owned */
    char *text;  /* a copy, cut into words that other members borrow. Owned */
    struct exchange_options exchange;
    const char *trace; /* file of the trace; NULL: none */
    int result;        /* result of poseidon_wait: RESULT_MEAN, ... */
    struct rule rule;
    float rate, trust; /* learning rate; trust: LARS's ratio, 0: off */
};
enum { RESULT_MEAN, RESULT_SUM, RESULT_VALUES };

/* Parses the option string. The caller frees out->given and out->text, also after a failure. */
int option_string_parse(const char *text, struct option_string *out);

struct member {                    /* one tensor of the program */
    struct poseidon_tensor tensor; /* its name is owned */
    enum element_type type;        /* element type of the gradient */
    struct group_param param;
    size_t begin;        /* offset in the arenas, floats */
    float *factors_kept; /* on a GPU: factors that are posted or skipped, outputs before inputs */
    int64_t posted;      /* number of iterations posted or skipped */
    bool waits;          /* poseidon_wait has not followed the last post or skip */
    bool factors;        /* factors travel in the gradient's place */
};

struct poseidon {
    struct owner owner; /* owner of groups, work, costs and zeros */
    struct option_string words;
    MPI_Comm comm; /* owned, like all below; MPI_COMM_NULL: all that needs MPI has ended */
    int key;       /* key of MPI_COMM_SELF's attribute, which MPI_Finalize deletes */
    int rank, nranks;
    struct member *members;
    int nmembers;
    struct device device; /* device of the tensors' memory. .i NULL: no tensor yet; .context NULL:
                             the host's device, which is `host` once started */
    int gpu;              /* number of the GPU, if the device is one */
    /* members below are set by poseidon_start */
    size_t elems; /* floats in an arena */
    struct topology hosts;
    struct device host;       /* device that multiplies on the host */
    struct exchange exchange; /* .sync NULL: not started */
    struct group *groups;
    struct layer_times work; /* compute times; each tensor is a layer */
    struct cost *costs;      /* per bucket; NULL if the network was not measured */
    float *values, *grads;   /* arenas on the host: the node's, if ranks share memory */
    float *device_values;    /* values in the tensors' memory: a GPU's copy, or `values` itself */
    float *device_grads;
    struct owner arenas;       /* owner of a GPU's memory */
    float *zeros;              /* factors of skipped tensors */
    int gave;                  /* -1: a result could not be copied to its tensor */
    bool caught_up;            /* library_catch_up was called in this iteration */
    const float *left, *right; /* factors being posted; borrowed */
    struct trace *trace;       /* NULL: none */
    struct clock_offset clock; /* offset of this rank's clock before the start */
    int64_t began;             /* start of this iteration in the trace */
    struct strbuf about;       /* values that all ranks, and the runs of a job, must have alike */
    char *plan_text;           /* the plan (exchange/saved_plan.h), if auto chose; else "" */
    bool resumes;              /* continues from a state of poseidon_state_set */
    char *state;               /* the state, on rank 0 until the start */
    char *failure;             /* message of the failure; NULL: none */
    bool untold;               /* failed before the start; the other ranks do not know yet */
    char *advice;
    int left_to_post; /* tensors still to be posted in this iteration */
    float rates[2];   /* learning rates of even and odd iterations, of which two may be under way */
    _Atomic int64_t iteration; /* this iteration; the wire's thread reads it */
    _Atomic int missing; /* first tensor neither posted nor skipped; the wire's thread reads it */
};

/* ---- memory of tensors (place.c) ---- */

/* Fails if `place` does not suit the tensor and the earlier ones. The first tensor opens the
 * device. */
int library_check_place(struct poseidon *p, const struct poseidon_tensor *tensor,
                        const struct poseidon_place *place);
/* library_place_arenas allocates the arenas once nodes are formed. library_free_arenas frees arenas
 * and device at the end. shared: the node owned the host's arenas. */
int library_place_arenas(struct poseidon *p);
void library_free_arenas(struct poseidon *p, bool shared);
/* Copies all tensors' values to the host's arena (DEVICE_FETCH), or from there to the device's
 * arena and to the tensors. Waits until the copies are complete. */
int library_move_values(struct poseidon *p, enum device_direction direction);
/* Copies the tensor's gradient, or zeros if skipped, into the arena. */
int library_take_gradient(struct poseidon *p, int tensor, bool skipped);
/* Copies the tensor's result to its place; notes a failure in p->gave. */
void library_give_result(struct poseidon *p, int tensor);
/* Sets p->left and p->right, which sync reads. NULL: zeros. */
int library_take_factors(struct poseidon *p, int tensor, const float *left, const float *right);
/* library_follow: our stream waits for the caller's. library_precede: the caller's stream waits for
 * ours. A failure ends the handle, but for tensors in the host's memory. */
int library_check_stream(const struct poseidon *p); /* fails if tensors have no streams */
int library_catch_up(struct poseidon *p);           /* call before an iteration's first post */
int library_follow(struct poseidon *p, void *stream);
int library_precede(struct poseidon *p, void *stream);

/* Prepares the start, from comparing the ranks' tensors to opening the sync. Collective. */
int library_prepare_all(struct poseidon *p);

/* Writes the trace to its file, after the wire's thread has ended. Collective. */
int library_write_trace(struct poseidon *p);

/* Distributes the state, if there is one. Collective. */
int library_load_state(struct poseidon *p);

/* Does library_check(p, false) on all ranks: the failure of one rank ends the handle on all ranks.
 * A `status` other than 0, this rank's own, makes the call fail and does not end the handle.
 * Collective. */
int library_meet(struct poseidon *p, int status);

/* Returns 0 if the handle has not failed, and has started or not as `started` says; else -1. */
int library_check(const struct poseidon *p, bool started);

/* Ends the traffic; all ranks get this thread's message, and no later call succeeds. Returns -1. */
int library_end(struct poseidon *p);

/* Frees everything from library_prepare_all. in_flight: MPI may still use the arenas, which stay.
 * Collective. */
void library_release(struct poseidon *p, bool in_flight);

#endif
