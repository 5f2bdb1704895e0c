/* An option as a row of a table: its name, where its value goes, and what makes the value of a
 * text. Command lines (commands/options.h) and the words of libposeidon are such tables. Not
 * collective. */
#ifndef POSEIDON_UTIL_OPTION_H
#define POSEIDON_UTIL_OPTION_H

#include <stdbool.h>
#include <stddef.h>

enum option_kind {
    OPTION_TEXT,    /* const char **: borrowed from argv */
    OPTION_INT,     /* int * */
    OPTION_COUNT,   /* int *: at least 1 */
    OPTION_THREADS, /* int *: at least 1, at most 16 for each core; more than the cores is warned of
                       on standard error, by one rank alone */
    OPTION_SEED,    /* long long * */
    OPTION_BYTES,   /* size_t *: a number with an optional k, m or g */
    OPTION_REAL,    /* double *: above 0 */
    OPTION_FLAG,    /* bool * */
    OPTION_CHOICE,  /* int *, or an enumeration's: the place of one of `words` */
    OPTION_WORD,    /* OPTION_CALL whose value may be left out: words[1]; words[0] is "not given" */
    OPTION_NAME,    /* OPTION_TEXT whose value may be left out: "" */
    OPTION_CALL,    /* whatever `parse` makes of it */
    OPTION_LIST,    /* struct option_list *: may be given again and again */
    OPTION_TUNING,  /* no target: NAME=VALUE of a row with OPTION_TUNE; may be repeated */
    OPTION_GROUP,   /* a heading of --help, in `help`; no option */
};

enum option_flag {
    OPTION_OWN = 1,   /* each rank may have its own; else all ranks must be given the same */
    OPTION_TUNE = 2,  /* behind the row of OPTION_TUNING; listed by options_print_tuning */
    OPTION_CAFFE = 4, /* a word of Caffe's that has another name here: taken, and not listed; with
                         OPTION_TUNE: taken without --tune, too */
};

/* Whether an option decides which parameters a run ends with. Rows without a word of it have their
 * heading's. */
enum option_run {
    OPTION_UNSAID,
    OPTION_FREE,   /* each start of a run may have another value */
    OPTION_OF_RUN, /* all starts of a run have the same text */
    OPTION_OF_JOB, /* agree_job_describe compares what the job makes of the value */
};

enum { OPTIONS_INDENT = 29 }; /* columns before an option's words in --help */

enum { OPTIONS_ITEMS = 64 }; /* times that a user may give an OPTION_LIST */

/* The values of an option that was given several times; borrowed from argv. */
struct option_list {
    const char *item[OPTIONS_ITEMS + 1]; /* with room for one of the command's own */
    int n;
};

/* Rows leave out what they do not need. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct option {
    const char *name; /* without dashes */
    enum option_kind kind;
    void *target;      /* keeps its value where the option is not given */
    const char *value; /* what stands for the value in --help; NULL for flags. */
    const char *help;
    const char *const *words; /* ended by NULL; of the enumeration's own header */
    /* Fills the target, or fails with a message that begins with --OPTION; borrows `text`. */
    int (*parse)(const char *option, const char *text, void *target);
    const char *need;    /* it must be given: what a message says behind "Need " where it is not */
    const char *engines; /* those that use it, with blanks between them; NULL: all. It is refused
                            where another one computes, */
    const char *default_words; /* but for these values, which change nothing; or NULL */
    const char *not_with;      /* options that this one does not go with, as "batch comm=none"; the
                                  second      with that value alone. NULL: none */
    const char *why;           /* the reason, behind the option's name */
    unsigned flags;            /* of enum option_flag */
    enum option_run run;       /* in tables of command_line.run */
};

/* A table that is made of several parts. */
enum { OPTIONS_MOST = 128 };
struct option_rows {
    struct option row[OPTIONS_MOST];
    int n;
    bool given[OPTIONS_MOST]; /* by options_parse_words */
};
void options_add(struct option_rows *rows, const struct option *more, int n);

/* The text's value into the row's target, of any kind but flags, words and names that stand alone.
 * name: what messages call the option, "--chunk", "--tune=chunk" or "chunk". Fails with a message.
 */
int option_store(const struct option *option, const char *name, const char *text);

/* "NAME=VALUE,NAME=VALUE", which is cut apart, into the rows' targets. */
int options_parse_words(struct option_rows *rows, char *text);

/* Whether this process is the one of a job that warns: by what launchers say of ranks, for MPI may
 * not be started yet. */
bool option_warns(void);

#endif
