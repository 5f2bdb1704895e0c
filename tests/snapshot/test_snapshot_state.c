/* Solver states: against h5py in both directions; what a full disk, a kill and a moved file leave.
 */
#include "tests/snapshot/snapshot_common.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Two arrays as in the state fixtures. */
struct history {
    float a[18], b[2];
    struct snapshot_blob blobs[2];
};

static void history_init(struct history *history)
{
    memset(history, 0, sizeof *history);
    history->blobs[0] = (struct snapshot_blob){&conv_w, history->a, false};
    history->blobs[1] = (struct snapshot_blob){&conv_b, history->b, false};
}

START_TEST(state_of_caffe_is_read)
{
    struct snapshot_state state;
    struct history history;

    history_init(&history);
    ck_assert_msg(snapshot_read_state(DATA "caffe.solverstate.h5", &state, history.blobs, 2) == 0,
                  "%s", error_text());
    ck_assert_int_eq(state.iter, 500);
    ck_assert_int_eq(state.current_step, 2);
    ck_assert_str_eq(state.learned_net, "lenet_iter_500.caffemodel.h5");
    ck_assert(!state.has_data_cursor);
    assert_ramp(history.a, 18, 0);
    assert_ramp(history.b, 2, 50);
    snapshot_state_free(&state);
    ck_assert_ptr_null(state.learned_net);
}
END_TEST

START_TEST(state_of_h5py_with_variable_text_and_extras_is_read)
{
    struct snapshot_state state;
    struct history history;

    history_init(&history);
    ck_assert_msg(snapshot_read_state(DATA "h5py.solverstate.h5", &state, history.blobs, 2) == 0,
                  "%s", error_text());
    ck_assert_str_eq(state.learned_net, "models/gr\xc3\xbcn.caffemodel.h5");
    ck_assert(state.has_data_cursor && state.data_cursor == 448);
    snapshot_state_free(&state);
}
END_TEST

START_TEST(state_comes_back_and_h5py_reads_it)
{
    struct snapshot_state state = {.iter = 1000000,
                                   .current_step = 3,
                                   .has_data_cursor = true,
                                   .learned_net = "gr\xc3\xbcn/m_iter_1000000.caffemodel.h5",
                                   .data_cursor = UINT64_MAX - 1,
                                   .owner.global_batch = INT64_MAX};
    struct snapshot_state back;
    struct history history, again;
    char text[4096];

    history_init(&history);
    history_init(&again);
    for (int i = 0; i < 18; i++)
        history.a[i] = 1.0f / (float)(i + 3);
    history.b[1] = 2.5f;
    ck_assert_msg(snapshot_write_state(in_folder("s.h5"), &state, history.blobs, 2) == 0, "%s",
                  error_text());
    ck_assert_msg(snapshot_read_state(in_folder("s.h5"), &back, again.blobs, 2) == 0, "%s",
                  error_text());
    ck_assert_int_eq(back.iter, state.iter);
    ck_assert_int_eq(back.current_step, state.current_step);
    ck_assert_str_eq(back.learned_net, state.learned_net);
    ck_assert(back.has_data_cursor && back.data_cursor == state.data_cursor);
    ck_assert_int_eq(back.owner.global_batch, INT64_MAX);
    ck_assert_int_eq(memcmp(history.a, again.a, sizeof again.a), 0);
    ck_assert_int_eq(memcmp(history.b, again.b, sizeof again.b), 0);
    snapshot_state_free(&back);

    memset(history.a, 0, sizeof history.a);
    state.data_cursor = 64000;
    ck_assert_int_eq(snapshot_write_state(in_folder("s.h5"), &state, history.blobs, 2), 0);
    if (!show(in_folder("s.h5"), text, sizeof text))
        return;
    ck_assert_str_eq(text, "current_step int32 1: 3\n"
                           "data_cursor uint64 1: 64000\n"
                           "global_batch int64 1: 9.22337e+18\n"
                           "history/\n"
                           "history/0 float32 2x1x3x3: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                           "history/1 float32 2: 0 2.5\n"
                           "iter int32 1: 1e+06\n"
                           "learned_net text scalar: gr\xc3\xbcn/m_iter_1000000.caffemodel.h5\n"
                           "version\n");
}
END_TEST

static void expect_state_error(const char *path, int nhistory, const char *message)
{
    struct snapshot_blob blobs[4];
    struct snapshot_state state;
    struct history history;

    history_init(&history);
    for (int i = 0; i < 4; i++)
        blobs[i] = history.blobs[i % 2];
    ck_assert_int_ne(snapshot_read_state(path, &state, blobs, nhistory), 0);
    assert_error_begins("%s", message);
    ck_assert_ptr_null(state.learned_net);
}

/* Of about 1,100 layers: longer than an attribute may be. */
START_TEST(a_long_plan_comes_back)
{
    static char plan[200001];
    struct snapshot_state state = {.iter = 1, .learned_net = "m", .owner.plan = plan}, back;
    struct history history;

    history_init(&history);
    memset(plan, 'p', sizeof plan - 1);
    ck_assert_msg(snapshot_write_state(in_folder("l.h5"), &state, history.blobs, 2) == 0, "%s",
                  error_text());
    ck_assert_msg(snapshot_read_state(in_folder("l.h5"), &back, history.blobs, 2) == 0, "%s",
                  error_text());
    ck_assert_pstr_eq(back.owner.plan, plan);
    snapshot_state_free(&back);
}
END_TEST

START_TEST(what_is_no_state_is_named)
{
    expect_state_error(DATA "caffe.caffemodel.h5", 2,
                       DATA "caffe.caffemodel.h5 is a model, not a solver state: give it to "
                            "--weights, or give the .solverstate.h5 that belongs to it");
    expect_state_error(DATA "neither.h5", 2,
                       DATA "neither.h5 is not a solver state: it has no 'iter'");
    expect_state_error(DATA "show.py", 2, DATA "show.py: expected a solver state");
    expect_state_error("/nowhere/s.h5", 2, "/nowhere/s.h5: no such file");
    expect_state_error(DATA "three_iters.solverstate.h5", 2,
                       DATA
                       "three_iters.solverstate.h5: data set 'iter' has 3 elements; expected 1");
    expect_state_error(DATA "negative_iter.solverstate.h5", 2,
                       DATA "negative_iter.solverstate.h5: 'iter' is -5; expected 0 or more");
}
END_TEST

START_TEST(state_of_another_net_or_solver_is_refused)
{
    static const struct shape other = {1, {3}};
    float data[3];
    struct snapshot_state state;
    struct history history;

    expect_state_error(DATA "caffe.solverstate.h5", 4,
                       DATA "caffe.solverstate.h5: Incorrect length of history blobs. The file has "
                            "2, the solver needs 4: the state of another net or another type of "
                            "solver");
    expect_state_error(DATA "caffe.solverstate.h5", 1,
                       DATA "caffe.solverstate.h5: Incorrect length of history blobs. The file has "
                            "2, the solver needs 1");
    history_init(&history);
    history.blobs[1] = (struct snapshot_blob){&other, data, false};
    ck_assert_int_ne(snapshot_read_state(DATA "caffe.solverstate.h5", &state, history.blobs, 2), 0);
    assert_error(DATA "caffe.solverstate.h5: Cannot load blob from hdf5; shape mismatch. Source "
                      "shape is 2 (2) target shape is 3 (3) (history 1: the state of another net)");
    ck_assert(history.a[1] == 0);
}
END_TEST

START_TEST(truncated_state_is_refused)
{
    static unsigned char bytes[100000];
    const char *path = in_folder("cut_state.h5");
    size_t n = read_bytes(DATA "caffe.solverstate.h5", bytes, sizeof bytes);
    char expected[512];

    write_bytes(path, bytes, n / 2);
    snprintf(expected, sizeof expected, "%s: truncated HDF5 file of %zu bytes", path, n / 2);
    expect_state_error(path, 2, expected);
}
END_TEST

START_TEST(full_disk_keeps_the_old_snapshot_and_leaves_nothing_else)
{
    const char *path = in_folder("full.h5"), *temp = in_folder("full.h5.tmp");
    struct rlimit limit = {4096, 4096};
    struct snapshot_state state = {.learned_net = "m"};
    struct history history;
    struct net net;

    net_init(&net);
    history_init(&history);
    net.conv_w[0] = 5;
    ck_assert_int_eq(snapshot_write_model(path, NULL, net.layers, net.nlayers), 0);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    net.conv_w[0] = 6;
    ck_assert_int_ne(snapshot_write_model(path, NULL, net.layers, net.nlayers), 0);
    assert_error_begins("the model cannot be saved: cannot write ");
    ck_assert_ptr_nonnull(strstr(error_text(), "File too large"));
    ck_assert(!exists(temp));
    ck_assert_int_eq(snapshot_read_model(path, net.layers, net.nlayers, NULL), 0);
    ck_assert(net.conv_w[0] == 5);
    ck_assert_int_ne(snapshot_write_state(in_folder("full_s.h5"), &state, history.blobs, 2), 0);
    assert_error_begins("the solver state cannot be saved: cannot write ");
    ck_assert(!exists(in_folder("full_s.h5")));
    ck_assert(!exists(in_folder("full_s.h5.tmp")));
}
END_TEST

START_TEST(kill_at_any_moment_leaves_a_whole_snapshot)
{
    const char *path = in_folder("killed.h5");
    struct net net;

    net_init(&net);
    ck_assert_int_eq(snapshot_write_model(path, NULL, net.layers, net.nlayers), 0);
    seed_random();
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();

        ck_assert_int_ge(child, 0);
        if (child == 0) {
            while (snapshot_write_model(path, NULL, net.layers, net.nlayers) == 0)
                continue;
            _exit(1);
        }
        usleep((useconds_t)(500 + rand() % 15000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        ck_assert_msg(snapshot_read_model(path, net.layers, net.nlayers, NULL) == 0, "%s",
                      error_text());
    }
}
END_TEST

START_TEST(probe_finds_out_whether_snapshots_can_be_written)
{
    char prefix[256];

    snprintf(prefix, sizeof prefix, "%s/probe/lenet", folder);
    ck_assert_int_ne(snapshot_probe(prefix), 0);
    assert_error(
        "Cannot write to snapshot prefix '%s'.  Make sure that the directory exists and is "
        "writable. (%s_iter_0.tempfile: No such file or directory)",
        prefix, prefix);
    ck_assert_int_eq(mkdir(in_folder("probe"), 0777), 0);
    ck_assert_int_eq(snapshot_probe(prefix), 0);
    ck_assert_int_eq(rmdir(in_folder("probe")), 0); /* the probe left nothing behind */
}
END_TEST

START_TEST(names_are_caffes)
{
    char *model = snapshot_model_path("out/lenet", 5000, false);
    char *state = snapshot_state_path("out/lenet", 5000, false);

    ck_assert_str_eq(model, "out/lenet_iter_5000.caffemodel.h5");
    ck_assert_str_eq(state, "out/lenet_iter_5000.solverstate.h5");
    free(model);
    free(state);
}
END_TEST

START_TEST(model_of_a_moved_state_is_found_beside_it)
{
    char state[256], *model = NULL;

    snprintf(state, sizeof state, "%s/moved.solverstate.h5", folder);
    write_bytes(in_folder("moved.caffemodel.h5"), "x", 1);
    ck_assert_int_eq(snapshot_find_model(state, "old/place/moved.caffemodel.h5", &model), 0);
    ck_assert_str_eq(model, in_folder("moved.caffemodel.h5"));
    free(model);
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(snapshot_find_model("elsewhere/s.h5", "moved.caffemodel.h5", &model), 0);
    ck_assert_str_eq(model, "moved.caffemodel.h5");
    free(model);
    ck_assert_int_eq(
        snapshot_find_model("moved.solverstate.h5", "gone/moved.caffemodel.h5", &model), 0);
    ck_assert_str_eq(model, "moved.caffemodel.h5");
    free(model);
    ck_assert_int_ne(snapshot_find_model(state, "gone/other.h5", &model), 0);
    ck_assert_ptr_null(model);
    assert_error("%s: its model is missing: there is neither 'gone/other.h5' (from the current "
                 "folder %s) nor, "
                 "beside the state, '%s/other.h5'",
                 state, folder, folder);
}
END_TEST

SUITE_IN(folder, "snapshot: state")
{
    TCase *tcase = suite_case(suite, "state");

    tcase_add_test(tcase, state_of_caffe_is_read);
    tcase_add_test(tcase, state_of_h5py_with_variable_text_and_extras_is_read);
    tcase_add_test(tcase, state_comes_back_and_h5py_reads_it);
    tcase_add_test(tcase, a_long_plan_comes_back);
    tcase_add_test(tcase, what_is_no_state_is_named);
    tcase_add_test(tcase, state_of_another_net_or_solver_is_refused);
    tcase_add_test(tcase, truncated_state_is_refused);
    tcase_add_test(tcase, full_disk_keeps_the_old_snapshot_and_leaves_nothing_else);
    tcase_add_test(tcase, kill_at_any_moment_leaves_a_whole_snapshot);
    tcase_add_test(tcase, probe_finds_out_whether_snapshots_can_be_written);
    tcase_add_test(tcase, names_are_caffes);
    tcase_add_test(tcase, model_of_a_moved_state_is_found_beside_it);
}
