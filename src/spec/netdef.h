/* The net of one phase as Caffe's rules make it from a file: include and exclude rules applied,
 * Split layers put in, every bottom bound to a top. Names only; shapes are the layers' business. */
#ifndef POSEIDON_SPEC_NETDEF_H
#define POSEIDON_SPEC_NETDEF_H

#include "spec/caffe.pb-c.h"
#include "spec/text.h"

#include <stdbool.h>
#include <stddef.h>

/* What include and exclude rules are compared with. All zero but for the phase: level 0, no stages.
 */
struct net_state {
    int phase; /* CAFFE__PHASE__TRAIN or CAFFE__PHASE__TEST */
    int level;
    const char **stages; /* the array is owned, the names are borrowed */
    size_t nstages;
};

/* Names are borrowed from the net's file, and of Splits from their own param. */
struct layer_def {
    /* The layer as the file has it, borrowed; of a Split that was put in: `split`. Names of bottoms
     * are to be taken from here, not from param. */
    const Caffe__LayerParameter *param;
    const char *name; /* "" if the file gives none */
    const char *type; /* likewise */
    int nbottoms, ntops;
    char **bottoms, **tops; /* after splits; borrowed, or `renamed` */
    /* One per top; then, for layers of type *Loss, one for each further top that they make without
     * a name: nweights >= ntops. Caffe's rule: explicit ones win, else 1 for the first top of a
     * layer whose type ends in "Loss", else 0. */
    float *loss_weights;
    int nweights;
    bool inserted;  /* a Split that is not in the file */
    char **renamed; /* owned; of a layer of the file */
    Caffe__LayerParameter
        *split;       /* owned, with name, type, bottom and top; NULL: it is in the file */
    int line;         /* where the layer begins in `file`; 0 if unknown. A Split has its source's */
    const char *file; /* borrowed from the net_def */
};

struct net_def {
    const char *name;                 /* "" if the file gives none; borrowed */
    const char *file;                 /* for messages; borrowed */
    const Caffe__NetParameter *param; /* borrowed */
    int nlayers;
    struct layer_def *layers;
};

/* Merges a state of a file into this one: level and phase replace, stages are added. The strings
 * are borrowed. NULL changes nothing. */
int net_state_merge(struct net_state *state, const Caffe__NetState *with);
void net_state_free(struct net_state *state);

/* Is the layer in the net of that state? Fails when it has both include and exclude rules. */
int net_state_admits(const struct net_state *state, const Caffe__LayerParameter *layer, bool *in);

/* Why the layer is not in the net of that state, to stand behind "makes it, but": "only with stage
 * 'train'". The layer's rules must be sound and leave it out. Returns whether another stage or
 * level would bring it in. */
bool net_state_explain(const struct net_state *state, const Caffe__LayerParameter *layer, char *out,
                       size_t bytes);

/* Makes the net of `param` for a phase and the state that param->state and, if not NULL, `more`
 * make of it: as in Caffe, neither changes the phase (docs/caffe.md 4). `doc` is the document that
 * holds param: it gives the file's name and line numbers; NULL when param does not come from a
 * text. Both must outlive the result. param must be in today's form (spec_read_net_of sees to
 * that). Fails on a bottom that no layer before produces, a top that is produced twice and not in
 * place, a wrong number of loss weights or of propagate_down. */
int net_def_create(const struct text_doc *doc, const Caffe__NetParameter *param, int phase,
                   const Caffe__NetState *more, struct net_def **out);

/* "FILE:LINE: layer 'NAME'" for messages; the line is left out when unknown. */
struct text_place layer_def_place(const struct layer_def *layer);

void net_def_destroy(struct net_def *def);

#endif
