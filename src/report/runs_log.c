/* Losses out of Caffe's log lines, as train writes them and its tools have always read them:
 *     Iteration 100 (12.5 iter/s, 8s/100 iters), loss = 1.25 */
#include "report/runs_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/file.h"
#include "util/strbuf.h"

static int add_point(struct run_curve *curve, double iteration, double seconds, double loss)
{
    size_t room = (size_t)curve->count + 1;

    if ((room & (room - 1)) == 0) {
        double **columns[] = {&curve->iteration, &curve->seconds, &curve->loss};
        for (int c = 0; c < 3; c++) {
            double *grown = realloc(*columns[c], 2 * room * sizeof *grown);
            if (!grown)
                return error_memory(2 * room * sizeof *grown, "a curve");
            *columns[c] = grown;
        }
    }
    curve->iteration[curve->count] = iteration;
    curve->seconds[curve->count] = seconds;
    curve->loss[curve->count++] = loss;
    return 0;
}

int runs_read_log(const char *path, struct run_curve *out)
{
    struct strbuf text = {.length = 0};
    double seconds = 0;
    int status = file_read(path, NULL, &text);

    for (const char *at = strbuf_text(&text); !status && (at = strstr(at, "Iteration ")); at++) {
        double iteration, rate, took, loss;
        int of;
        if (sscanf(at, "Iteration %lf (%lf iter/s, %lfs/%d iters), loss = %lf", &iteration, &rate,
                   &took, &of, &loss) != 5)
            continue;
        seconds += took;
        status = add_point(out, iteration, seconds, loss);
    }
    strbuf_free(&text);
    return status;
}
