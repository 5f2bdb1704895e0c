/* Deals workers to nodes. */
#include "sync/node_map.h"

#include "util/alloc.h"
#include "util/error.h"

#include <assert.h>
#include <stdlib.h>

/* Scratch of one machine. */
struct machine {
    int last;    /* node of the machine that has room, or -1 */
    int members; /* members of node `last` */
    int leaders;
};

static void put_together(struct node_map *map, const int *machine_of, int nranks, int each,
                         struct machine *machines)
{
    for (int r = 0; r < nranks; r++)
        machines[machine_of[r]] = (struct machine){.last = -1};
    for (int r = 0; r < nranks; r++) {
        struct machine *machine = &machines[machine_of[r]];
        if (r >= map->nworkers) {
            machine->leaders++;
        } else {
            if (machine->last < 0 || (each > 0 && machine->members == each)) {
                machine->last = map->nnodes++;
                machine->members = 0;
                machine->leaders++;
            }
            map->node[r] = machine->last;
            if (++machine->members > map->most)
                map->most = machine->members;
        }
        if (machine->leaders > map->leaders_per_host)
            map->leaders_per_host = machine->leaders;
    }
}

int node_map_create(const int *machine, int nmachines, int nranks, int nworkers, int each,
                    struct node_map *out)
{
    struct machine *machines;
    int status = ALLOC(machines, nmachines, "the nodes");

    assert(nworkers > 0 && nworkers <= nranks);
    *out = (struct node_map){.nworkers = nworkers};
    status = error_status(status || ALLOC(out->node, nranks, "the nodes"));
    if (!status)
        put_together(out, machine, nranks, each, machines);
    free(machines);
    return status;
}

void node_map_free(struct node_map *map)
{
    free(map->node);
    map->node = NULL;
}
