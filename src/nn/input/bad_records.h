/* Damaged records: an image that cannot be decoded, a Datum that is cut short, an image that is too
 * small. Up to a limit, damaged records are left out and the next record replaces each. So a sample
 * depends on its number alone, whichever rank reads it. */
#ifndef POSEIDON_INPUT_BAD_RECORDS_H
#define POSEIDON_INPUT_BAD_RECORDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct record;
struct source;
struct transform;

/* How damaged records are treated. All zero: damage is an error, and nothing is reported. */
struct bad_record_policy {
    int max_bad; /* most damaged records of a source that may be left out */
    void (*say)(void *context, const char *text); /* called with a sentence for the user, from any
                                                     thread, several at once; NULL: no reports */
    void *context;                                /* first argument of `say` */
    _Atomic int *left_out; /* counts the records that are left out; NULL: no count */
};

struct bad_records {
    struct bad_record_policy policy;
    pthread_mutex_t mutex; /* guards the members below */
    uint64_t *record;      /* numbers of records that were left out; policy.max_bad places, owned */
    int nrecords;
};

int bad_records_open(struct bad_records *bad, const struct bad_record_policy *policy);
void bad_records_close(struct bad_records *bad);

/* Reads record `number`, or the first undamaged record after it. transform: must accept the record,
 * unless NULL; bytes: the record must hold bytes. Any thread, each with its own record. */
int bad_records_read(struct bad_records *bad, struct source *source,
                     const struct transform *transform, bool bytes, uint64_t number,
                     struct record *out);

#endif
