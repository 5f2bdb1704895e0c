/* Damaged records of all ranks: said by the rank that met them when it did, and told in one list at
 * the end. */
#include "train/guard.h"

#include "util/agree.h"
#include "util/alloc.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

void job_say_of_data(void *context, const char *text)
{
    const struct job *job = context;

    if (job->rank == 0)
        LOG_WARNING(job->log, "%s", text);
    else /* its log is off but for errors */
        LOG_ERROR(job->log, "rank %d on %s: %s", job->rank, job->topology.host[job->rank], text);
}

static void put_damage(const struct job *job, const struct compute *compute, struct strbuf *lines)
{
    if (!job->worker || job->blank)
        return;
    net_input_damage(compute->net, lines);
    for (int i = 0; compute->tests && i < job->defs.ntests; i++)
        net_input_damage(compute->tests[i], lines);
}

/* Whether `line` is among `lines`, each of which ends in a newline. */
static bool has_line(const char *lines, const char *line, size_t length)
{
    for (; *lines; lines += strcspn(lines, "\n") + 1)
        if (strcspn(lines, "\n") + 1 == length && !strncmp(lines, line, length))
            return true;
    return false;
}

/* A record that several ranks have met is told once. */
static char *take_once(const char *lines, int *count)
{
    struct strbuf out = {0};

    for (size_t length; *lines; lines += length) {
        length = strcspn(lines, "\n") + 1;
        if (has_line(strbuf_text(&out), lines, length))
            continue;
        strbuf_append(&out, lines, length);
        ++*count;
    }
    return strbuf_take(&out);
}

/* All ranks' lines, one rank's behind another's, in rank 0's *all, to be freed. */
static int gather(const struct job *job, const struct strbuf *lines, char **all)
{
    int length = (int)lines->length, total = 0, *places = NULL, status = -1;
    void *lengths = NULL;

    if (agree_gather(job->world, &length, sizeof length, "damaged records", &lengths))
        return -1;
    if (job->rank == 0) {
        places = alloc_array((size_t)job->nranks, sizeof *places, "damaged records");
        for (int r = 0; places && r < job->nranks; r++) {
            places[r] = total;
            total += ((int *)lengths)[r];
        }
        *all = alloc_array((size_t)total + 1, 1, "damaged records");
    }
    if (error_agree(job->world, job->rank == 0 && (!places || !*all) ? -1 : 0))
        goto fail;
    MPI_TRY(
        MPI_Gatherv(lines->data, length, MPI_CHAR, *all, lengths, places, MPI_CHAR, 0, job->world));
    status = 0;
fail:
    free(lengths);
    free(places);
    return status;
}

int bad_records_gather_all(const struct job *job, const struct compute *compute, char **out)
{
    struct strbuf lines = {0};
    char *all = NULL;
    int count = 0, status;

    if (job->options->max_bad == 0)
        return 0;
    put_damage(job, compute, &lines);
    status = error_agree(job->world, strbuf_status(&lines)) || gather(job, &lines, &all) ? -1 : 0;
    if (!status && job->rank == 0 && *all) {
        *out = take_once(all, &count);
        LOG_WARNING(job->log, "%d damaged record%s left out; --summary lists them", count,
                    count == 1 ? " was" : "s were");
    }
    strbuf_free(&lines);
    free(all);
    return status;
}
