/* Damaged records: an image that cannot be decoded, a Datum that is cut short, an image that is too
 * small. Some may be left out: the record behind takes the place of each, so that what a sample is
 * still depends on its number alone, whichever rank reads it. */
#ifndef POSEIDON_INPUT_DAMAGE_H
#define POSEIDON_INPUT_DAMAGE_H

#include "input/bad_records.h"
#include "input/source.h"
#include "input/transform.h"

#include <pthread.h>

struct strbuf;

struct damage {
    struct bad_record_policy care;
    pthread_mutex_t mutex; /* of what follows */
    struct damage_record {
        uint64_t number;
        char *message; /* owned */
    } * record;        /* those left out, care.max_bad places. Owned */
    int nrecords;
};

int damage_open(struct damage *damage, const struct bad_record_policy *care);
void damage_close(struct damage *damage);

/* Reads a record that can be delivered: the record `number`, or else the first whole record behind
 * it. transform: what has to accept it, or NULL; bytes: it has to hold bytes. Any thread, each with
 * a record of its own. */
int damage_read(struct damage *damage, struct source *source, const struct transform *transform,
                bool bytes, uint64_t number, struct record *out);

/* Appends a line for each record that was left out. Any thread. */
void damage_list(struct damage *damage, struct strbuf *out);

#endif
