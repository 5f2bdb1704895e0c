/* Files of residuals beside a snapshot: back bit for bit, refused where they are damaged or of
 * another snapshot, and there as long as their state is. */
#define _GNU_SOURCE
#include "tests/snapshot/faults_common.h"

enum { ARENAS = 3 };

/* What element i of an arena of that iteration is. */
static float owed(int64_t iteration, int number, size_t i)
{
    return (float)((double)iteration * 0.37 + (double)number * 1.7 - (double)i * 0.23);
}

/* Of a snapshot to come; how many of them were written. */
static int write_arenas(struct work *work, const char *prefix, struct train_state *state)
{
    const struct net *net = work->made.net;
    float *arena = calloc(net->elems, sizeof *arena);
    char run[] = "r";
    int written = 0;

    for (int n = 0; n < ARENAS; n++) {
        for (size_t i = 0; i < net->elems; i++)
            arena[i] = owed(state->iteration, n, i);
        written += !checkpoint_write_residuals(net, prefix, run, state, n, arena);
    }
    snprintf(state->residuals, sizeof state->residuals, "%d: as many as that", ARENAS);
    free(arena);
    return written;
}

static void save_with(struct work *work, struct snapshot_writer *writer, const char *prefix,
                      int64_t iteration)
{
    struct train_state state = {.iteration = iteration};
    struct snapshot_owner whose = owner();

    set_values(work, (float)iteration);
    ck_assert_int_eq(write_arenas(work, prefix, &state), ARENAS);
    ck_assert_msg(snapshot_writer_save(writer, work->history, &state, &whose) == 0, "%s",
                  error_text());
}

/* As the one resumes that lies under that name; whether it has residuals, which then are its own.
 */
static bool resumes_with(struct work *work, const char *prefix, int64_t name, bool binary)
{
    const struct net *net = work->made.net;
    struct train_state state;
    char *path = snapshot_state_path(prefix, name, binary), *model;
    float *arena = calloc(net->elems, sizeof *arena);

    ck_assert_msg(checkpoint_resume(path, work->made.net, 1, work->history, &state, &model, NULL) ==
                      0,
                  "%s", error_text());
    for (int n = 0; n < ARENAS && state.residuals[0]; n++) {
        ck_assert_msg(checkpoint_read_residuals(net, model, n, arena) == 0, "%s", error_text());
        for (int p = 0; p < net->nparams; p++) {
            size_t at = net_param_begin(net, p);
            ck_assert_float_eq(arena[at], owed(state.iteration, n, at));
        }
    }
    free(arena);
    free(path);
    free(model);
    return state.residuals[0];
}

static int count_files(const char *pattern)
{
    char command[400];
    FILE *pipe;
    int count = -1;

    snprintf(command, sizeof command, "ls %s 2>/dev/null | wc -l", pattern);
    ck_assert_ptr_nonnull(pipe = popen(command, "r"));
    ck_assert_int_eq(fscanf(pipe, "%d", &count), 1);
    ck_assert_int_eq(pclose(pipe), 0);
    return count;
}

/* _i: in Caffe's binary form. */
START_TEST(they_come_and_go_with_their_state)
{
    struct work work;
    struct snapshot_writer *writer;
    char prefix[300], pattern[320];
    struct snapshot_writer_options options = {.nhistory = 1, .keep = 2, .binary = _i};

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/a.caffemodel-%d", folder, _i);
    snprintf(pattern, sizeof pattern, "%s*residuals*", prefix);
    options.prefix = prefix;
    options.net = work.made.net;
    ck_assert_int_eq(snapshot_writer_create(&options, &writer), 0);
    snapshot_writer_mark_best(writer, 2, 0.5);
    for (int64_t i = 1; i <= 5; i++)
        save_with(&work, writer, prefix, i);
    ck_assert_msg(snapshot_writer_finish(writer, 60) == 0, "%s", error_text());
    ck_assert_int_eq(count_files(pattern), 3 * ARENAS);
    ck_assert(resumes_with(&work, prefix, 4, _i) && resumes_with(&work, prefix, 5, _i));
    ck_assert(resumes_with(&work, prefix, SNAPSHOT_BEST, _i));
    /* one of the same name that has none, as after --comm=ps */
    hand_over(&work, writer, 5, 1);
    ck_assert_msg(snapshot_writer_finish(writer, 60) == 0, "%s", error_text());
    ck_assert_int_eq(count_files(pattern), 2 * ARENAS);
    ck_assert(!resumes_with(&work, prefix, 5, _i));
    snapshot_writer_destroy(writer);
    close_work(&work);
}
END_TEST

/* No state can be written: what is replaced, or given up, leaves neither residuals nor its model,
 * which would take the room of the next. */
START_TEST(what_is_never_written_leaves_none)
{
    struct work work;
    struct snapshot_writer *writer;
    _Atomic int64_t written = -1;
    char prefix[300], pattern[320], models[320], *blocked[2];

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/blocked", folder);
    snprintf(pattern, sizeof pattern, "%s*residuals*", prefix);
    snprintf(models, sizeof models, "%s*caffemodel*", prefix);
    for (int i = 0; i < 2; i++) { /* a folder stands where the state is to be written */
        char *path = snapshot_state_path(prefix, i + 1, false);
        ck_assert_int_gt(asprintf(&blocked[i], "%s.tmp", path), 0);
        ck_assert_int_eq(mkdir(blocked[i], 0777), 0);
        free(path);
    }
    writer = open_writer(&work, prefix, 0, NULL, &written);
    save_with(&work, writer, prefix, 1);
    snapshot_writer_make_room(writer, 2); /* which comes in its place */
    ck_assert_int_eq(count_files(pattern), 0);
    ck_assert_int_eq(count_files(models), 0);
    save_with(&work, writer, prefix, 2);
    ck_assert_int_eq(count_files(pattern), ARENAS);
    ck_assert_int_ne(snapshot_writer_finish(writer, 1), 0);
    ck_assert_int_eq(count_files(pattern), 0);
    ck_assert_int_eq(count_files(models), 0);
    snapshot_writer_destroy(writer);
    free(blocked[0]);
    free(blocked[1]);
    close_work(&work);
}
END_TEST

/* Every system call that writes residuals may fail once: who says that they are written is right.
 * _i: the call. */
START_TEST(every_system_call_may_fail_once)
{
    struct work work;
    char prefix[256], pattern[320];
    int faults = 0;

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/fault-%d", folder, _i);
    snprintf(pattern, sizeof pattern, "%s*residuals*", prefix);
    for (int which = 1;; which++) {
        struct train_state state = {.iteration = 1};
        int written;

        arm((enum call)_i, which, EIO);
        written = write_arenas(&work, prefix, &state);
        disarm();
        if (atomic_load(&failed) == 0)
            break;
        faults++;
        ck_assert_int_ge(written, ARENAS - 1);
        ck_assert_int_ge(count_files(pattern), written);
        checkpoint_drop_residuals(prefix, 1, NULL);
    }
    ck_assert_int_ge(faults, ARENAS);
    checkpoint_drop_residuals(prefix, 1, NULL);
    ck_assert_int_eq(count_files(pattern), 0);
    close_work(&work);
}
END_TEST

/* The whole snapshot of iteration 1, in a folder of its own. */
static void make_snapshot(struct work *work, const char *prefix, struct train_state *state)
{
    struct checkpoint *checkpoint;
    struct snapshot_owner whose = owner();

    *state = (struct train_state){.iteration = 1};
    set_values(work, 1);
    ck_assert_int_eq(checkpoint_create(work->made.net, 1, NULL, &checkpoint), 0);
    ck_assert_int_eq(write_arenas(work, prefix, state), ARENAS);
    ck_assert_int_eq(checkpoint_fill(checkpoint, work->history, state, &whose), 0);
    ck_assert_int_eq(checkpoint_write(checkpoint, prefix, false, NULL), 0);
    checkpoint_destroy(checkpoint);
}

/* Cut short at every length, and each byte another: refused in one message that names the file. */
START_TEST(no_damage_goes_unnoticed)
{
    struct work work;
    struct train_state state;
    char prefix[300], *path, *state_path, *model, expected[400];
    unsigned char bytes[4096], damaged[4096];
    size_t length;
    FILE *file;

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/damaged", folder);
    make_snapshot(&work, prefix, &state);
    ck_assert(resumes_with(&work, prefix, 1, false));
    state_path = snapshot_state_path(prefix, 1, false);
    model = snapshot_model_path(prefix, 1, false);
    path = snapshot_residuals_path(model, 1);
    free(model);
    snprintf(expected, sizeof expected, "its residuals: %s", path);
    ck_assert_ptr_nonnull(file = fopen(path, "rb"));
    length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    ck_assert(length > 100 && length < sizeof bytes);
    for (size_t i = 0; i < 2 * length; i++) {
        memcpy(damaged, bytes, length);
        damaged[i % length] ^= 0x10;
        ck_assert_ptr_nonnull(file = fopen(path, "wb"));
        fwrite(i < length ? bytes : damaged, 1, i < length ? i : length, file);
        fclose(file);
        ck_assert_msg(checkpoint_resume(state_path, work.made.net, 1, work.history, &state, &model,
                                        NULL) != 0,
                      "%s %zu of %zu is not noticed", i < length ? "length" : "another byte",
                      i % length, length);
        ck_assert_ptr_null(model);
        ck_assert_msg(!strncmp(error_text(), expected, strlen(expected)), "%s", error_text());
    }
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_ne(
        checkpoint_resume(state_path, work.made.net, 1, work.history, &state, &model, NULL), 0);
    ck_assert_msg(strstr(error_text(), ".residuals.1: no such file") != NULL, "%s", error_text());
    free(path);
    free(state_path);
    close_work(&work);
}
END_TEST

START_TEST(those_of_another_iteration_or_run_are_refused)
{
    struct work work;
    struct train_state state, other = {.iteration = 2};
    char prefix[300], copy[700], another[] = "another", *state_path, *model;
    float *arena;

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/others", folder);
    make_snapshot(&work, prefix, &state);
    ck_assert_int_eq(write_arenas(&work, prefix, &other), ARENAS);
    snprintf(copy, sizeof copy, "cp '%s_iter_2.residuals.2' '%s_iter_1.residuals.2'", prefix,
             prefix);
    ck_assert_int_eq(system(copy), 0);
    state_path = snapshot_state_path(prefix, 1, false);
    ck_assert_int_ne(
        checkpoint_resume(state_path, work.made.net, 1, work.history, &state, &model, NULL), 0);
    ck_assert_msg(strstr(error_text(), "others_iter_1.residuals.2: found iteration 2 of run 'r'; "
                                       "expected iteration 1 of run 'r'") != NULL,
                  "%s", error_text());
    other.iteration = 1;
    arena = calloc(work.made.net->elems, sizeof *arena);
    ck_assert_int_eq(checkpoint_write_residuals(work.made.net, prefix, another, &other, 2, arena),
                     0);
    ck_assert_int_ne(
        checkpoint_resume(state_path, work.made.net, 1, work.history, &state, &model, NULL), 0);
    ck_assert_msg(strstr(error_text(), "iteration 1 of run 'another'; expected") != NULL, "%s",
                  error_text());
    free(arena);
    free(state_path);
    close_work(&work);
}
END_TEST

SUITE_IN(folder, "residuals")
{
    TCase *tcase = suite_case(suite, "residuals");

    tcase_add_loop_test(tcase, they_come_and_go_with_their_state, 0, 2);
    tcase_add_test(tcase, what_is_never_written_leaves_none);
    tcase_add_loop_test(tcase, every_system_call_may_fail_once, 0, CALLS);
    tcase_add_test(tcase, no_damage_goes_unnoticed);
    tcase_add_test(tcase, those_of_another_iteration_or_run_are_refused);
}
