/* Damaged records: an image that cannot be decoded, a Datum that is cut short, an image that is too
 * small. Some may be left out: the record behind takes the place of each, so that what a sample is
 * still depends on its number alone, whichever rank reads it. */
#ifndef POSEIDON_INPUT_BAD_RECORDS_H
#define POSEIDON_INPUT_BAD_RECORDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct record;
struct source;
struct strbuf;
struct transform;

/* All zero: damage is an error, and nobody is told of changes. */
struct bad_record_policy {
    int max_bad; /* number of damaged records of a source that may be left out */
    void (*say)(void *context, const char *text); /* a sentence for the user; NULL: nobody. Any
                                                     thread, several at once */
    void *context;                                /* of say */
};

struct bad_records {
    struct bad_record_policy policy;
    pthread_mutex_t mutex; /* of what follows */
    struct bad_record {
        uint64_t number;
        char *message; /* owned */
    } * record;        /* those left out, policy.max_bad places. Owned */
    int nrecords;
};

int bad_records_open(struct bad_records *bad, const struct bad_record_policy *policy);
void bad_records_close(struct bad_records *bad);

/* Reads a record that can be delivered: the record `number`, or else the first whole record behind
 * it. transform: what has to accept it, or NULL; bytes: it has to hold bytes. Any thread, each with
 * a record of its own. */
int bad_records_read(struct bad_records *bad, struct source *source,
                     const struct transform *transform, bool bytes, uint64_t number,
                     struct record *out);

/* Appends a line for each record that was left out. Any thread. */
void bad_records_list(struct bad_records *bad, struct strbuf *out);

#endif
