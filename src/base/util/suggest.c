/* Finds the known word that a user may have meant. */
#include "util/suggest.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define MOST 63 /* longest word that is compared */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Returns the least number of insertions, deletions, replacements and swaps of neighbours that turn
 * one word into the other; 64 for words too long to compare. */
static int distance_between(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    int rows[3][MOST + 2];

    if (na > MOST || nb > MOST)
        return MOST + 1;
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];

        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int differ = lower(a[i - 1]) != lower(b[j - 1]);

            row[j] = least(above[j - 1] + differ, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

struct suggest suggest_start(const char *word)
{
    return (struct suggest){.word = word, .distance = MOST + 1};
}

/* Returns how many letters may be wrong: two, or a third of the longer word if that is less, but at
 * least one and never all. "_param", which ends all messages' fields, does not count. */
static int allowed(const char *a, const char *b)
{
    static const char ending[] = "_param";
    const int tail = (int)sizeof ending - 1;
    int na = (int)strlen(a), nb = (int)strlen(b), longer = na > nb ? na : nb;
    int both = na > tail && nb > tail && strcmp(a + na - tail, ending) == 0 &&
               strcmp(b + nb - tail, ending) == 0;
    int third = (longer - (both ? tail : 0)) / 3;

    return third > 0 ? least(third, 2) : longer > 1;
}

/* Returns true if `word` extends `known` so far that it is another word: by two letters or more
 * before (Unpooling), by three or more behind (LRN_MAP), or by two behind that are not small
 * letters (Convolution3D). BatchNormal still means BatchNorm. */
static bool extends(const char *word, const char *known)
{
    size_t n = strlen(known);

    for (const char *at = word; strlen(at) >= n; at++)
        if (strncasecmp(at, known, n) == 0)
            return at - word > 1 || strlen(at + n) > 2 ||
                   (strlen(at + n) == 2 && !(at[n] >= 'a' && at[n] <= 'z'));
    return false;
}

void suggest_offer(struct suggest *suggest, const char *candidate)
{
    int distance = distance_between(suggest->word, candidate);

    if (distance < suggest->distance && distance <= allowed(suggest->word, candidate) &&
        !extends(suggest->word, candidate)) {
        suggest->distance = distance;
        suggest->nearest = candidate;
    }
}

bool suggest_lists(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (; *list; list += strcspn(list, " "), list += *list == ' ')
        if (strcspn(list, " ") == length && !strncasecmp(list, word, length))
            return true;
    return false;
}
