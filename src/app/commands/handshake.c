/* Compares the ranks' programs by texts of fixed sizes, which programs of any version can read. */
#include "commands/handshake.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/agree.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/machine.h"
#include "util/ranks.h"
#include "util/strbuf.h"

enum { TAG_CARD = 27182, TAG_VERDICT = 27183 };

/* A fixed layout: differences between builds are in the texts. */
struct handshake_record {
    char magic[8]; /* MAGIC without a NUL */
    char version[32], commit[64];
    char configuration[280]; /* digest of the sources, command, MPI library, word size and byte
                                order */
    char host[128];
};

#define MAGIC "poseidon"

_Static_assert(sizeof(struct handshake_record) == 512, "the record's layout is fixed");

static void fill_record(struct handshake_record *record, const struct build_info *build,
                        const char *command)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    const uint16_t order = 1;
    int length = 0;

    memset(record, 0, sizeof *record);
    memcpy(record->magic, MAGIC, sizeof record->magic);
    snprintf(record->version, sizeof record->version, "%s", build->version);
    snprintf(record->commit, sizeof record->commit, "%s", build->commit);
    if (gethostname(record->host, sizeof record->host - 1))
        strcpy(record->host, "?");
    (void)MPI_Get_library_version(mpi, &length);
    mpi[strcspn(mpi, ",\n")] = '\0';
    snprintf(record->configuration, sizeof record->configuration,
             "(sources %.32s), '%.24s' with %.64s, %zu bits, %s-endian", build->sources, command,
             mpi, CHAR_BIT * sizeof(void *), *(const char *)&order ? "little" : "big");
}

/* Returns true if both records describe the same program. The commit is shown but not compared:
 * commits outside the program change it, too. A foreign program's texts may lack their NUL. */
static bool is_same(const struct handshake_record *a, const struct handshake_record *b)
{
    return !memcmp(a->magic, b->magic, sizeof a->magic) &&
           !strncmp(a->version, b->version, sizeof a->version) &&
           !strncmp(a->configuration, b->configuration, sizeof a->configuration);
}

/* ---- messages ---- */

static void put_program(struct strbuf *text, const struct handshake_record *record)
{
    strbuf_printf(text, "poseidon %.31s of commit %.63s %.279s", record->version, record->commit,
                  record->configuration);
}

/* Sets the message that lists the programs and their ranks. */
static void describe(const struct handshake_record *records, int nranks)
{
    struct strbuf text = {0};

    for (int r = 0; r < nranks; r++) {
        struct ranks ranks = {.text = &text};
        int first = 0;

        while (!is_same(&records[first], &records[r]))
            first++;
        if (first < r)
            continue;
        strbuf_puts(&text, r ? "; rank " : "the ranks do not run the same program: rank ");
        for (int other = r; other < nranks; other++)
            if (is_same(&records[other], &records[r]))
                ranks_name(&ranks, other, records[other].host);
        ranks_end(&ranks);
        strbuf_puts(&text, ": ");
        put_program(&text, &records[r]);
    }
    error_set("%s; start the same program on every host ('poseidon --version' shows which)",
              strbuf_text(&text));
    strbuf_free(&text);
}

/* Sets the message about silent ranks. waiting: one request per rank, null if the rank answered. */
static void describe_silence(const struct handshake_record *mine, int rank,
                             const MPI_Request *waiting, int n)
{
    struct strbuf text = {0}, advice = {0};
    struct ranks ranks = {.text = &text};

    for (int r = 0; r < n; r++)
        if (waiting[r] != MPI_REQUEST_NULL)
            ranks_name(&ranks, r, NULL);
    ranks_end(&ranks);
    strbuf_puts(&text, ", where an older poseidon or another program may run ('poseidon --version' "
                       "shows which; here it is ");
    put_program(&text, mine);
    machine_put_network_advice(&advice);
    error_set("rank %d on %s had no answer within %d s from rank %s)%s%s", rank, mine->host,
              HANDSHAKE_SECONDS, strbuf_text(&text),
              advice.length ? ", or messages do not arrive: " : "", strbuf_text(&advice));
    strbuf_free(&text);
    strbuf_free(&advice);
}

/* ---- the exchange ---- */

/* Waits for the requests, at most `seconds`. *left: number of requests that are not complete. */
static int await(MPI_Request *requests, int n, double seconds, int *left)
{
    double begun = clock_seconds();
    struct timespec pause = {.tv_nsec = 20000};

    for (;;) {
        *left = 0;
        for (int i = 0, over; i < n; i++) { /* a null request counts as complete */
            MPI_CHECK(MPI_Test(&requests[i], &over, MPI_STATUS_IGNORE));
            *left += !over;
        }
        if (*left == 0 || clock_seconds() - begun > seconds)
            return 0;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 5000000)
            pause.tv_nsec *= 2;
    }
}

/* Does rank 0's part: receives the records, compares them and sends the verdict. */
static enum handshake judge(MPI_Comm world, const struct handshake_record *mine,
                            struct handshake_record *records, MPI_Request *requests, int nranks)
{
    bool differs = false;
    char verdict[8] = {0}; /* MAGIC if the programs are the same; anything else: refused */
    int left;

    records[0] = *mine;
    requests[0] = MPI_REQUEST_NULL;
    for (int r = 1; r < nranks; r++)
        MPI_TRY(MPI_Irecv(&records[r], (int)sizeof *records, MPI_BYTE, r, TAG_CARD, world,
                          &requests[r]));
    if (await(requests, nranks, HANDSHAKE_SECONDS, &left))
        return HANDSHAKE_UNHEARD;
    if (left > 0) {
        describe_silence(mine, 0, requests, nranks);
        return HANDSHAKE_UNHEARD;
    }
    for (int r = 1; r < nranks; r++) {
        records[r].host[sizeof records[r].host - 1] = '\0';
        differs |= !is_same(&records[0], &records[r]);
    }
    if (differs)
        describe(records, nranks);
    else
        memcpy(verdict, MAGIC, sizeof verdict);
    for (int r = 1; r < nranks; r++)
        MPI_TRY(MPI_Send(verdict, (int)sizeof verdict, MPI_BYTE, r, TAG_VERDICT, world));
    return differs ? HANDSHAKE_REFUSED : HANDSHAKE_SAME;
fail:
    return HANDSHAKE_UNHEARD;
}

/* Shows this rank's record to rank 0. Rank r waits 5 s longer than rank r - 1: only one reports. */
static enum handshake show(MPI_Comm world, struct handshake_record *mine, int rank)
{
    char verdict[8];
    MPI_Request requests[2];
    int left;

    MPI_TRY(MPI_Isend(mine, (int)sizeof *mine, MPI_BYTE, 0, TAG_CARD, world, &requests[0]));
    MPI_TRY(MPI_Irecv(verdict, (int)sizeof verdict, MPI_BYTE, 0, TAG_VERDICT, world, &requests[1]));
    if (await(requests, 2, HANDSHAKE_SECONDS + 5.0 * rank, &left))
        return HANDSHAKE_UNHEARD;
    if (left == 0)
        return memcmp(verdict, MAGIC, sizeof verdict) ? HANDSHAKE_REFUSED : HANDSHAKE_SAME;
    describe_silence(mine, rank, &requests[1], 1);
    (void)MPI_Cancel(&requests[1]); /* the verdict's buffer goes out of scope */
fail:
    return HANDSHAKE_UNHEARD;
}

enum handshake handshake(MPI_Comm world, const struct build_info *build, const char *command)
{
    enum handshake result = HANDSHAKE_UNHEARD;
    MPI_Request *requests = NULL;
    struct handshake_record mine, *records = NULL;
    int rank, nranks;

    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &nranks);
    fill_record(&mine, build, command);
    if (rank > 0)
        return show(world, &mine, rank);
    records = alloc_array((size_t)nranks, sizeof *records, "the ranks' programs");
    requests = alloc_array((size_t)nranks, sizeof *requests, "the ranks' programs");
    if (records && requests)
        result = judge(world, &mine, records, requests, nranks);
    if (result == HANDSHAKE_UNHEARD)
        return result; /* MPI may still write into the records and requests */
    free(records);
    free(requests);
    return result;
}
