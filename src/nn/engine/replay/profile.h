/* A profile: how long each layer of a net computes, one pass over a batch. A CSV file:
 *
 *     # a line that begins with # is a comment, except the next line
 *     # input 64 1 28 28
 *     layer,type,forward_s,backward_s
 *     conv1,Convolution,0.00113,0.00198
 *     pool1,Pooling,0.00041,0.00052
 *     *,GEMM,0.021,0
 *     *update,SGD,0.55,0
 *
 * The input's first axis is the batch that was timed: a file with that line can replay no other
 * batch. Each layer of the net has a line, in any order; type is not read. A name with a comma or a
 * quote is written in quotes, quotes doubled. Three lines name no layer:
 *   *        forward_s: one GFLOP (a multiply-add counts as 2) of matrix product, which rebuilding
 *            gradients from sufficient factors takes; no time without the line
 *   *update  forward_s: the solver's rule for 10^9 parameters; no time without the line
 *   *copy    10^9 bytes from the device to its host, and back; only `poseidon plan` reads it
 * `poseidon time --profile=FILE` writes a profile. */
#ifndef POSEIDON_ENGINE_REPLAY_PROFILE_H
#define POSEIDON_ENGINE_REPLAY_PROFILE_H

#include "util/strbuf.h"

#define PROFILE_GEMM   "*"
#define PROFILE_UPDATE "*update"
#define PROFILE_COPY   "*copy"

struct profile_layer {
    char *name, *type;        /* owned */
    double forward, backward; /* seconds */
    int line;                 /* line number in the file */
};

struct profile {
    char *file; /* owned */
    int batch;  /* samples of a timed pass; 0: the file does not say */
    int nlayers;
    struct profile_layer *layers; /* owned */
};

/* Reads the file; messages say FILE:LINE, what was expected and what was found. */
int profile_read(const char *file, struct profile *out);

/* Returns the layer's line; NULL if there is none. */
const struct profile_layer *profile_find(const struct profile *profile, const char *layer);

/* Append the header (profile_begin), and one line in the file's form (profile_add). */
void profile_begin(struct strbuf *text);
void profile_add(struct strbuf *text, const char *layer, const char *type, double forward,
                 double backward);

void profile_free(struct profile *profile);

#endif
