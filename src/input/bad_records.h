/* What to do about damaged records. */
#ifndef POSEIDON_INPUT_BAD_RECORDS_H
#define POSEIDON_INPUT_BAD_RECORDS_H

/* All zero: damage is an error, and nobody is told of changes. */
struct bad_record_policy {
    int max_bad; /* so many damaged records of a source may be left out */
    void (*say)(void *context, const char *text); /* a sentence for the user; NULL: nobody. Any
                                                     thread, several at once */
    void *context;                                /* of say */
};

#endif
