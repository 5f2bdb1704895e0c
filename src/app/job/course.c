/* Implements the table in course.h. */
#include "job/course.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64 }; /* room for a score's name in a snapshot */

void course_open(struct course *course)
{
    assert(course->first >= 0);
    course->best = (struct course_best){.iteration = -1};
    course->early = (struct course_early){.score = NAN};
    course->counted = course->saved = -1;
}

bool course_tests_at(const struct course *course, int64_t iteration)
{
    return course_is_due(course->test_every, iteration) && (iteration > 0 || course->tests_first);
}

bool course_saves_at(const struct course *course, int64_t iteration)
{
    return course->saves && course_is_due(course->save_every, iteration) &&
           iteration > course->first;
}

bool course_tests_last(const struct course *course, int64_t end)
{
    return course_is_due(course->test_every, end) || (course->tests_last && course->test_every > 0);
}

bool course_saves_last(const struct course *course, int64_t end, bool stopped)
{
    assert(course->saved <= end && course->first <= end);
    return course->saves && (stopped || course->saves_last) && course->saved != end;
}

/* Returns true if `score` is better than `than`; a NaN is never better. */
static bool is_better(int sign, double score, double than)
{
    assert(sign == 1 || sign == -1); /* with sign 0 no score would be better */
    return sign * score > sign * than;
}

static bool counts_fruitless(struct course *course, int64_t iteration, double score)
{
    struct course_early *early = &course->early;

    if (iteration <= course->counted || !course_is_due(course->test_every, iteration))
        return false;
    course->counted = iteration;
    if (isnan(early->score) || is_better(course->early_sign, score, early->score)) {
        *early = (struct course_early){.iteration = iteration, .score = score};
        return false;
    }
    early->tests++;
    return true;
}

int course_tested(struct course *course, int64_t iteration, double score, double early_score)
{
    struct course_best *best = &course->best;
    int effects = counts_fruitless(course, iteration, early_score) ? COURSE_FRUITLESS : 0;

    assert(iteration >= course->first && course->saved <= iteration);
    if (iteration == 0 || !isfinite(score) ||
        (best->iteration >= 0 && !is_better(course->best_sign, score, best->score)))
        return effects;
    *best = (struct course_best){.iteration = iteration, .score = score};
    return effects | COURSE_BETTER |
           (course->keeps_best && course->saved != iteration ? COURSE_SAVE : 0);
}

bool course_is_over(const struct course *course)
{
    return course->stop_after > 0 && course->early.tests >= course->stop_after;
}

void course_saved(struct course *course, int64_t iteration)
{
    assert(iteration >= course->saved);
    course->saved = iteration;
}

void course_remember(const struct course *course, const char *name, char *text, size_t bytes)
{
    snprintf(text, bytes, "%a %" PRId64 " %d %" PRId64 " %" PRId64 " %a %.*s", course->early.score,
             course->early.iteration, course->early.tests, course->counted, course->best.iteration,
             course->best.score, NAME_BYTES - 1, name ? name : "");
}

bool course_recall(struct course *course, const char *name, const char *text)
{
    struct course_early early;
    struct course_best best = {.iteration = -1};
    char by[NAME_BYTES] = "";
    int64_t counted = -1;
    int found =
        sscanf(text, "%la %" SCNd64 " %d %" SCNd64 " %" SCNd64 " %la %63[^\n]", &early.score,
               &early.iteration, &early.tests, &counted, &best.iteration, &best.score, by);

    if (found != 3 && found < 6) /* older versions wrote three numbers */
        return false;
    course->early = early;
    course->counted = counted;
    if (best.iteration >= 0 && name && !strncmp(by, name, NAME_BYTES - 1))
        course->best = best;
    return true;
}

struct course_best course_find_best(const struct course *course, struct course_best noted,
                                    bool (*file_exists)(const void *context, int64_t iteration),
                                    const void *context, struct course_best *gone)
{
    const struct course_best known[] = {noted, course->best};
    struct course_best best = {.iteration = -1};

    *gone = best;
    for (int i = 0; i < 2; i++) {
        struct course_best candidate = known[i];
        if (candidate.iteration < 0 || candidate.iteration > course->first)
            continue;
        if (!file_exists(context, candidate.iteration))
            *gone = candidate;
        else if (candidate.iteration > best.iteration) /* a later `best` had a better score */
            best = candidate;
    }
    if (best.iteration >= 0)
        gone->iteration = -1;
    assert(best.iteration <= course->first); /* the loop skips later tests */
    return best;
}
