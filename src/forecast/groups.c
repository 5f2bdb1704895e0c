/* From a net to plain groups. */
#include "forecast/groups.h"

#include "util/error.h"

#include <stdlib.h>

struct group *groups_create(const struct net *net)
{
    size_t ngroups = (size_t)net->ngroups + 1, nparams = (size_t)net->nparams + 1;
    struct group *groups =
        calloc(1, ngroups * sizeof *groups + nparams * sizeof(struct group_param));
    struct group_param *params;

    if (!groups) {
        error_memory(ngroups * sizeof *groups, "the groups of parameters");
        return NULL;
    }
    params = (struct group_param *)(groups + ngroups);
    for (int g = 0; g < net->ngroups; g++) {
        const struct param_group *from = &net->groups[g];
        groups[g] = (struct group){.name = from->name,
                                   .layer = from->layer,
                                   .begin = from->begin,
                                   .elems = from->elems,
                                   .nparams = from->nparams,
                                   .params = params + from->first,
                                   .trains = from->trains,
                                   .factorable = from->factorable,
                                   .m = from->m,
                                   .n = from->n,
                                   .k = from->k};
        if (net->params[from->first].shape.naxes > 1)
            groups[g].outputs = net->params[from->first].shape.dim[0];
    }
    for (int p = 0; p < net->nparams; p++)
        params[p] = (struct group_param){.elems = shape_elems(&net->params[p].shape),
                                         .lr_mult = net->params[p].lr_mult,
                                         .decay_mult = net->params[p].decay_mult};
    return groups;
}
