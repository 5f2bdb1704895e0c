/* Looks up a word in a list; the message for an unknown word lists all words. */
#include "util/choice.h"

#include "util/error.h"
#include "util/strbuf.h"

#include <string.h>

int choice_find(const char *const *words, const char *text)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], text))
            return i;
    return -1;
}

const char *choice_list(const char *const *words, char *buffer, size_t size)
{
    buffer[0] = '\0';
    for (int i = 0; words[i]; i++)
        buffer_printf(buffer, size, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    return buffer;
}

int choice_parse(const char *option, const char *text, const char *const *words, int *out)
{
    char list[256];
    int found = choice_find(words, text);

    if (found < 0)
        return error_set("%s=%s: expected %s", option, text, choice_list(words, list, sizeof list));
    *out = found;
    return 0;
}
