/* Looks up a word in a list; the message for an unknown word lists all words. */
#include "util/choice.h"

#include "util/error.h"
#include "util/strbuf.h"

#include <string.h>
#include <strings.h>

static int find_word(const char *const *words, const char *text,
                     int (*compare)(const char *, const char *))
{
    for (int i = 0; words[i]; i++)
        if (compare(words[i], text) == 0)
            return i;
    return -1;
}

int choice_find(const char *const *words, const char *text)
{
    return find_word(words, text, strcmp);
}

const char *choice_list(const char *const *words, char *buffer, size_t size)
{
    buffer[0] = '\0';
    for (int i = 0; words[i]; i++)
        buffer_printf(buffer, size, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    return buffer;
}

static int parse_word(const char *option, const char *text, const char *const *words,
                      int (*compare)(const char *, const char *), int *out)
{
    char list[256];
    int found = find_word(words, text, compare);

    if (found < 0)
        return error_set("%s=%s: expected %s", option, text, choice_list(words, list, sizeof list));
    *out = found;
    return 0;
}

int choice_parse(const char *option, const char *text, const char *const *words, int *out)
{
    return parse_word(option, text, words, strcmp, out);
}

int choice_parse_caseless(const char *option, const char *text, const char *const *words, int *out)
{
    return parse_word(option, text, words, strcasecmp, out);
}
