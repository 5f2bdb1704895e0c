/* Builds the net of one phase from a file by Caffe's rules: applies include and exclude rules,
 * inserts Split layers, binds every bottom to a top. Handles names only; layers compute shapes. */
#ifndef POSEIDON_SPEC_NETDEF_H
#define POSEIDON_SPEC_NETDEF_H

#include "spec/caffe.pb-c.h"
#include "spec/text.h"

#include <stdbool.h>
#include <stddef.h>

/* State that include and exclude rules test. All zero but for the phase: level 0, no stages. */
struct net_state {
    int phase; /* CAFFE__PHASE__TRAIN or CAFFE__PHASE__TEST */
    int level;
    const char **stages; /* owned array of borrowed names */
    size_t nstages;
};

/* One layer of the net. Names are borrowed from the net's file, those of a Split from `split`. */
struct layer_def {
    /* Layer as in the file, borrowed; for an inserted Split: `split`. Bottoms have their names in
     * `bottoms`, not in `param`. */
    const Caffe__LayerParameter *param;
    const char *name; /* "" if the file gives none */
    const char *type; /* "" if the file gives none */
    int nbottoms, ntops;
    char **bottoms, **tops; /* names after Splits; borrowed, or `renamed` */
    /* One weight per top, then one per further unnamed top of a layer of type *Loss, so that
     * nweights >= ntops. Caffe's rule: explicit weights win; else 1 for the first top of a layer
     * whose type ends in "Loss", and 0 for the rest. */
    float *loss_weights;
    int nweights;
    bool inserted;                /* Split that is not in the file */
    char **renamed;               /* owned; NULL for an inserted Split */
    Caffe__LayerParameter *split; /* owned, with name, type, bottom and top; NULL: not inserted */
    int line;         /* first line of the layer in `file`, for a Split of its source; 0: unknown */
    const char *file; /* borrowed from the net_def */
};

struct net_def {
    const char *name;                 /* "" if the file gives none; borrowed */
    const char *file;                 /* file's name for messages; borrowed */
    const Caffe__NetParameter *param; /* borrowed */
    int nlayers;
    struct layer_def *layers;
};

/* Merges a state from a file: its level and phase replace those of `state`, its stages are added.
 * The strings are borrowed. NULL changes nothing. */
int net_state_merge(struct net_state *state, const Caffe__NetState *with);
void net_state_free(struct net_state *state);

/* Decides if a layer belongs to that state's net. Fails on both include and exclude rules. */
int net_state_admits(const struct net_state *state, const Caffe__LayerParameter *layer, bool *in);

/* Writes why the layer is not in the net of that state, such as "only with stage 'train'", to
 * follow "makes it, but". The layer's rules must be valid and leave it out. Returns true if another
 * stage or level would include the layer. */
bool net_state_explain(const struct net_state *state, const Caffe__LayerParameter *layer, char *out,
                       size_t bytes);

/* Makes the net of `param` for a phase. The state is param->state merged with `added`, if not NULL;
 * neither changes the phase, as in Caffe (docs/caffe.md 4). doc: the document that holds `param`,
 * for the file's name and line numbers; NULL if `param` does not come from a text. Both must
 * outlive the result. `param` must be in today's form (spec_read_net_of ensures this). Fails on a
 * bottom that no earlier layer produces, a top that is produced twice and not in place, or a wrong
 * number of loss weights or of propagate_down. */
int net_def_create(const struct text_doc *doc, const Caffe__NetParameter *param, int phase,
                   const Caffe__NetState *added, struct net_def **out);

/* Returns "FILE:LINE: layer 'NAME'" for messages; leaves out an unknown line. */
struct text_place layer_def_place(const struct layer_def *layer);

void net_def_destroy(struct net_def *def);

#endif
