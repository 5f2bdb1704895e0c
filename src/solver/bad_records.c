/* Damaged records of all ranks: said by the rank that met them when it did, and told in one list at
 * the end. */
#include "solver/guard.h"

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

static int gather(const struct job *job, struct strbuf *lines, int *lengths, int *places, char *all)
{
    MPI_TRY(MPI_Gatherv(lines->data, (int)lines->length, MPI_CHAR, all, lengths, places, MPI_CHAR,
                        0, job->world));
    return 0;
fail:
    return -1;
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

int bad_records_gather_all(const struct job *job, const struct compute *compute, char **out)
{
    struct strbuf lines = {0};
    int *lengths = NULL, *places, count = 0, total = 0, length, status = -1;
    char *all = NULL;

    if (job->options->max_bad == 0)
        return 0;
    put_damage(job, compute, &lines);
    length = (int)lines.length;
    lengths = alloc_array(2 * (size_t)job->nranks, sizeof *lengths, "damaged records");
    if (error_agree(job->world, lengths && !strbuf_status(&lines) ? 0 : -1))
        goto fail;
    places = lengths + job->nranks;
    MPI_TRY(MPI_Gather(&length, 1, MPI_INT, lengths, 1, MPI_INT, 0, job->world));
    for (int r = 0; r < job->nranks && job->rank == 0; r++) {
        places[r] = total;
        total += lengths[r];
    }
    all = alloc_array((size_t)total + 1, 1, "damaged records");
    if (error_agree(job->world, all ? 0 : -1) ||
        error_agree(job->world, gather(job, &lines, lengths, places, all)))
        goto fail;
    if (job->rank == 0 && total > 0) {
        *out = take_once(all, &count);
        LOG_WARNING(job->log, "%d damaged record%s left out; --summary lists them", count,
                    count == 1 ? " was" : "s were");
    }
    status = 0;
fail:
    strbuf_free(&lines);
    free(lengths);
    free(all);
    return status;
}
