/* Figures that others have published, one a line of a CSV file:
 *
 *     table,system,comm,nodes,gbps,figure,value,grade,source,note
 *
 * table is a folder's name, comm the scheme here that does what `system` did; figure is "speedup"
 * (over one worker) or "images_per_second"; the note may hold commas. '#' begins a comment. */
#ifndef POSEIDON_REPORT_PUBLISHED_H
#define POSEIDON_REPORT_PUBLISHED_H

#include <stdbool.h>

#include "report/runs.h"

enum { PUBLISHED_FIELDS = 10 };

struct published_point {
    char *line;                                                /* cut into the fields; owned */
    const char *table, *system, *comm, *grade, *source, *note; /* in it */
    int nodes;
    double link_Bps;
    bool speedup; /* else images per second */
    double value;
};

struct published {
    int count;
    struct published_point *points; /* owned */
};

int published_read(const char *path, struct published *out);
void published_free(struct published *published);

/* Whether the run is of the point's scheme, nodes and link. */
bool published_is_of(const struct published_point *point, const struct run *run);

#endif
