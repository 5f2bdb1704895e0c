/* Reports damaged records: each rank when it reads one, and rank 0 all records at the end. */
#include "watch/monitor.h"

#include "util/agree.h"

#include <stdlib.h>
#include <string.h>

static void put_damage(const struct job *job, const struct compute *compute, struct strbuf *lines)
{
    if (!job->worker || job->blank)
        return;
    net_input_damage(compute->net, lines);
    for (int i = 0; compute->tests && i < job->defs.ntests; i++) {
        net_input_damage(compute->tests[i], lines);
        if (compute->passes[i].rest)
            net_input_damage(compute->passes[i].rest, lines);
    }
}

/* Returns true if `lines`, each with a newline at its end, contains `line`. */
static bool has_line(const char *lines, const char *line, size_t length)
{
    for (; *lines; lines += strcspn(lines, "\n") + 1)
        if (strcspn(lines, "\n") + 1 == length && !strncmp(lines, line, length))
            return true;
    return false;
}

/* Joins all ranks' texts of `bytes` each; lists a record once, even if several ranks read it. */
static char *take_once(const char *texts, size_t bytes, int nranks, int *count)
{
    struct strbuf out = {0};

    for (int r = 0; r < nranks; r++)
        for (const char *line = texts + (size_t)r * bytes; *line;) {
            size_t length = strcspn(line, "\n") + 1;

            if (!has_line(strbuf_text(&out), line, length)) {
                strbuf_append(&out, line, length);
                ++*count;
            }
            line += length;
        }
    return strbuf_take(&out);
}

int bad_records_gather_all(const struct job *job, const struct compute *compute, char **out)
{
    struct strbuf lines = {0};
    void *all = NULL;
    size_t bytes;
    int count = 0, status;

    if (job->options->max_bad == 0)
        return 0;
    put_damage(job, compute, &lines);
    status = error_status(error_agree(job->world, strbuf_status(&lines)) ||
                          agree_gather_texts(job->world, &lines, "damaged records", &bytes, &all));
    if (!status && all)
        *out = take_once(all, bytes, job->nranks, &count);
    if (count > 0)
        LOG_WARNING(job->log, "%d damaged record%s left out; --summary lists them", count,
                    count == 1 ? " was" : "s were");
    strbuf_free(&lines);
    free(all);
    return status;
}
