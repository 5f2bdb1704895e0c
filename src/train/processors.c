/* See processors.h. Parameter servers are no workers: an update has the same bits everywhere. */
#include "train/processors.h"

#include "train/agree_job.h"
#include "util/agree.h"
#include "util/ranks.h"

#include <stdlib.h>
#include <string.h>

/* "Rank 1 on HOST: KIND" of each kind, a line each. */
static void put_kinds(const struct job *job, const char (*texts)[ENGINE_PROCESSOR_WORDS],
                      struct strbuf *out)
{
    const struct topology *t = &job->topology;

    for (int r = 0; r < job->nworkers; r++) {
        char hosts[256] = "";

        if (ranks_were_said(texts[0], ENGINE_PROCESSOR_WORDS, r))
            continue;
        strbuf_puts(out, "\n  ");
        ranks_put_alike(out, "rank", texts[0], ENGINE_PROCESSOR_WORDS, job->nworkers, r);
        for (int i = r, machine = -1; i < job->nworkers; i++)
            if (!strcmp(texts[i], texts[r]) && t->machine[i] > machine) {
                machine = t->machine[i];
                buffer_list(hosts, sizeof hosts, t->host[i]);
            }
        strbuf_printf(out, " on %s: %s", hosts, texts[r]);
    }
}

static int compare(struct job *job, const char (*texts)[ENGINE_PROCESSOR_WORDS])
{
    struct strbuf list = {.data = NULL}, kinds = {.data = NULL};
    int status;

    agree_job_list_processors(texts, job->nworkers, &list);
    status = strbuf_status(&list) ||
             OWN(job->owner, job->processors, list.length + 1, "the processors' names");
    if (!status)
        memcpy(job->processors, strbuf_text(&list), list.length);
    strbuf_free(&list);
    if (status || strcmp(job->processors, texts[0]) == 0)
        return status ? -1 : 0;
    put_kinds(job, texts, &kinds);
    LOG_WARNING(
        job->log,
        "--reproducible: the workers' processors, or their oneDNN, are not of one kind. The "
        "bits then depend on which rank computes what: they stay the same only where each "
        "rank is on the kind that it is on here:%s",
        strbuf_text(&kinds));
    strbuf_free(&kinds);
    return 0;
}

int processors_find_all(struct job *job)
{
    char mine[ENGINE_PROCESSOR_WORDS] = "";
    void *texts;
    int status = 0;

    if (!job->options->reproducible)
        return 0;
    engine_processor(job->options->engine, mine);
    if (agree_gather(job->world, mine, sizeof mine, "processors", &texts))
        return -1;
    if (texts)
        status = compare(job, texts);
    free(texts);
    return error_agree(job->world, status);
}
