/* Lists of ranks in messages. A list names only some of a thousand ranks, so that it is read. */
#include "util/ranks.h"

#include "util/topology.h"

#include <string.h>

void ranks_put(struct strbuf *text, const struct topology *topology, int rank)
{
    strbuf_printf(text, topology ? "rank %d on %s" : "rank %d", rank,
                  topology ? topology->host[rank] : NULL);
}

bool ranks_next(struct ranks *ranks)
{
    if (ranks->count++ >= RANKS_NAMED)
        return false;
    strbuf_puts(ranks->text, ranks->count > 1 ? ", " : "");
    return true;
}

void ranks_name(struct ranks *ranks, int rank, const char *host)
{
    if (ranks_next(ranks))
        strbuf_printf(ranks->text, host ? "%d on %s" : "%d", rank, host);
}

void ranks_end(const struct ranks *ranks)
{
    if (ranks->count > RANKS_NAMED)
        strbuf_printf(ranks->text, " and %d more", ranks->count - RANKS_NAMED);
}

bool ranks_were_said(const char *texts, size_t room, int rank)
{
    int before = 0;

    while (strcmp(texts + (size_t)before * room, texts + (size_t)rank * room) != 0)
        before++;
    return before < rank;
}

int ranks_put_alike(struct strbuf *out, const char *word, const char *texts, size_t room,
                    int nranks, int first)
{
    const char *text = texts + (size_t)first * room;
    int count = 0;

    for (int r = first; r < nranks; r++)
        count += !strcmp(texts + (size_t)r * room, text);
    strbuf_printf(out, count > 1 ? "%ss " : "%s ", word);
    for (int r = first, end; r < nranks; r = end) {
        end = r + 1;
        if (strcmp(texts + (size_t)r * room, text) != 0)
            continue;
        while (end < nranks && !strcmp(texts + (size_t)end * room, text))
            end++;
        strbuf_printf(out, end > r + 1 ? "%s%d-%d" : "%s%d", r > first ? ", " : "", r, end - 1);
    }
    return count;
}
