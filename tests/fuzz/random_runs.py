#!/usr/bin/python3
"""Random trainings: small nets, solvers and options of "poseidon train", on 1 to 5 ranks.

    random_runs.py [--seconds=S] [--count=N] [--seed=N] [--ranks=1-5] [--keep=FOLDER]

Run it in a build folder, of whichever build. Each combination is one seed, from --seed on, for --count combinations or
--seconds. What is judged:

- with any options: training ends, with status 0 and a finite final snapshot, or refuses with one message that says where;
- --comm=ps and --comm=allreduce without a hierarchy train the same parameters, bit for bit, and what else loses nothing
  the same but for rounding;
- a run that goes on from a snapshot ends, bit for bit, as the one that nobody stopped;
- --reproducible trains the same parameters, bit for bit, on one rank and on several.

An option of --help that has no values here is a failure, too. --keep=FOLDER keeps the folders of combinations that failed.
"""
import argparse
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import h5py
    import numpy
except ImportError:
    print('SKIP: h5py or numpy is missing')
    sys.exit(77)
sys.dont_write_bytecode = True
from random_nets import Net, draw_solver, solver_text, write_data

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
POSEIDON = os.environ.get('POSEIDON', os.path.abspath('poseidon'))
MPIRUN = os.environ.get('POSEIDON_MPIRUN', TOP + '/tests/mpirun.sh')
os.environ.setdefault('OMP_NUM_THREADS', '1')  # in nets as small as these, more of them wait for each other; --threads is drawn
os.environ.setdefault('LSAN_OPTIONS', f'suppressions={TOP}/tests/lsan.supp:print_suppressions=0')
os.environ.setdefault('ASAN_OPTIONS', 'fast_unwind_on_malloc=0:allocator_may_return_null=1:verify_asan_link_order=0')
os.environ.setdefault('TSAN_OPTIONS', f'suppressions={TOP}/tests/tsan.supp:allocator_may_return_null=1')
CRASH = re.compile(r'Sanitizer|runtime error:|Assertion|Segmentation fault|exited on signal')
OURS = re.compile(r'^poseidon train: (.*)', re.M)
# Where a refusal may have its place: an option, a file, a layer, a field, an iteration, a rank.
PLACE = re.compile(r'--\w|^direct=on: |layer \'|engine \'|\.prototxt|\.h5|\.caffemodel|iteration \d|rank \d|\w+_\w+|not ready to train')


class Fault(Exception):
    pass


class Diverged(Exception):
    """No fault: some rates are too high for their nets."""


class Case:
    """One combination: a net, a solver and a number of ranks, in a folder of its own."""

    def __init__(self, seed, ranks, folder, data):
        draw = self.stream(seed, 'ranks')
        self.seed, self.folder, self.ranks = seed, folder, draw.randint(*ranks)
        self.net = Net(self.stream(seed, 'net'), data)
        self.fields = draw_solver(self.stream(seed, 'solver'))
        self.random, self.trainings, self.last = self.stream(seed, 'options'), 0, ''
        os.mkdir(folder)
        self.write('net.prototxt', self.net.text)
        self.write('solver.prototxt', solver_text(dict(self.fields, net=folder + '/net.prototxt', snapshot_prefix=folder + '/run')))

    @staticmethod
    def stream(seed, what):
        return random.Random(f'{seed} {what}')  # each by itself: a new option leaves the nets as they are

    def write(self, name, text):
        with open(f'{self.folder}/{name}', 'w') as f:
            f.write(text)

    def path(self, name):
        return f'{self.folder}/{name}'

    def train(self, words, must=True):
        """Status and output of a training that may be refused, and may not where it must run."""
        command = [MPIRUN, str(self.ranks), POSEIDON, 'train', '--solver=solver.prototxt'] + words
        self.trainings += 1
        self.last = ' '.join(command)
        self.write(f'{self.trainings}.sh', f'cd {self.folder} && {self.last}\n')
        # the figures that are measured are each combination's own
        environment = dict(os.environ, POSEIDON_CACHE=self.path('cache'))
        with open(self.path(f'{self.trainings}.log'), 'w+', errors='replace') as log:
            run = subprocess.Popen(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            try:
                status = run.wait()
            finally:
                run.terminate()  # nothing, where it has ended
                run.wait()
            log.seek(0)
            text = log.read()
        found = CRASH.search(text)
        if found:
            raise Fault('crashed: ' + next(line for line in text.splitlines() if found.group() in line))
        if status in (124, 137):
            raise Fault('hangs')
        said = OURS.findall(text)
        if status and (status < 0 or status > 76):
            raise Fault(f'status {status}')
        if status and len(said) != 1:
            raise Fault(f'status {status} with {len(said)} messages: {said}')
        if status and (len(said[0].split()) < 4 or not PLACE.search(said[0])):
            raise Fault(f'no place is said: {said[0]!r}')
        if status and must and re.search('diverged|not finite|before any update', said[0]):
            raise Diverged
        if status and must:
            raise Fault(f'refused: {said[0]}')
        return status, text

    def final(self, prefix, iteration=None):
        """The final model and state; None where it is no HDF5."""
        last = [int(re.search(r'_iter_(\d+)', name).group(1)) for name in os.listdir(self.folder)
                if re.fullmatch(re.escape(prefix) + r'_iter_\d+\.solverstate(\.h5)?', name)]
        if not last or (iteration is not None and max(last) != iteration):
            raise Fault(f'snapshots of iterations {sorted(last)}, expected {"one" if iteration is None else iteration}')
        name = f'{prefix}_iter_{max(last)}'
        if not os.path.exists(self.path(name + '.caffemodel.h5')):
            if not os.path.getsize(self.path(name + '.caffemodel')):
                raise Fault(f'{name}.caffemodel is empty')
            return None
        return dict(read_blobs(self.path(name + '.caffemodel.h5'), 'data'), **read_blobs(self.path(name + '.solverstate.h5'), 'history'))


def read_blobs(path, group):
    blobs = {}
    with h5py.File(path, 'r') as f:
        f[group].visititems(lambda name, item: blobs.update({f'{group}/{name}': item[()]}) if isinstance(item, h5py.Dataset) else None)
    for name, values in blobs.items():
        if not numpy.isfinite(values).all():
            raise Fault(f'{os.path.basename(path)}: {name} is not finite')
    return blobs


# ---- options ----

def option_values(case):
    """By option: how often it is given, and its value (None: a flag)."""
    pick, ranks, fields = case.random.choice, case.ranks, case.fields
    effects, usual, rare = ['stop', 'snapshot', 'none'], 0.09, 0.02
    tested = usual if 'test_interval' in fields else rare
    before = 'before_iter_2.'
    ending = '.h5' if fields['snapshot_format'] == 'HDF5' else ''
    return {
        'weights': (usual, before + 'caffemodel' + ending),
        'snapshot': (usual, before + 'solverstate' + ending),
        'resume': (usual, None),
        'run': (usual, 'name'),
        'set': (usual, pick(['base_lr=0.001', 'random_seed=7', 'average_loss=3', 'clip_gradients=2', 'iter_size=2', 'no_such_field=1', 'snapshot=3', 'local_lr_auto=true', 'no_bias_decay=true', 'average_decay=0.9'])),
        'batch': (usual, pick([1, 3, 4, 7])),
        'global-batch': (usual, (pick([1, 2, 3]) * ranks + pick([0, 0, 1, 2])) * pick([1, fields.get('iter_size', 1), fields.get('iter_size', 1)])),
        'reproducible': (usual, pick([None, 1, 2])),
        'balance': (usual, pick([None, ','.join(map(str, parts(case, ranks)))])),
        'sync-bn': (usual, None),
        'shuffle': (usual, None),
        'max-iter': (usual, pick([4, 7, 9])),
        'stop-after': (tested, pick([1, 2])),
        'snapshot-prefix': (usual, case.path('run')),
        'tune=stage': (rare, pick(['a', 'a,b'])),
        'tune=level': (rare, pick([0, 1])),
        'dry-run': (rare, None),
        'on-signal': (rare, ','.join(f'{name}={pick(effects)}' for name in ('INT', 'HUP', 'TERM', 'USR1', 'XCPU'))),
        'time-limit': (usual, pick(['none', '2h', '1:30:00'])),
        'snapshot-every': (usual, pick(['1s', '1h', '1%'])),
        'max-bad': (usual, pick([0, 2])),
        'on-nan': (usual, pick(['stop', 'skip', 'skip,3'])),
        'tune=check-sync': (usual, pick([1, 3])),
        'stall-timeout': (usual, pick(['none', '20min'])),
        'keep': (usual, pick([1, 2])),
        'keep-best': (tested, pick(case.net.outputs * 3 + ['no such output'])),
        'threads': (usual, pick([1, 2])),
        'engine': (rare, pick(['cpu', 'replay', 'cuda'])),
        'tune=convolution': (usual, pick(['auto', 'direct', 'winograd'])),
        'tune=no-fusion': (usual, None),
        'tune=no-graphs': (rare, None),
        'math': (usual, pick(['fp32', 'bf16', 'bf16', 'tf32'])),
        'tune=deterministic': (rare, None),
        'tune=workspace': (rare, pick(['1m', '1g'])),
        'tune=share-gpu': (rare, None),
        'tune=direct': (rare, pick(['auto', 'on', 'off'])),
        'tune=ps-update': (rare, pick(['auto', 'host', 'device'])),
        'tune=profile': (rare, 'profile'),
        'tune=dilate': (rare, 4),
        'fake-data': (rare, '2,9,8'),
        'comm': (0.7, pick(['auto', 'paper', 'none', 'ps', 'ps', 'sfb', 'sfb', 'allreduce', 'adam', 'onebit', 'lowrank', 'lowrank:1'])),
        'tune=cluster-file': (usual, 'cluster'),
        'tune=measure': (usual, None),
        'tune=staleness': (usual, pick([0, 1, 3])),
        'tune=drop-stragglers': (usual, pick([0, 1, 2])),
        'tune=wire': (usual, pick(['fp32', 'bf16'])),
        'lossy': (usual, pick(['bf16', 'lowrank:1', 'lowrank,bf16', 'onebit,lowrank:2,bf16', 'fp8'])),
        'servers': (0.15, pick(list(range(ranks)) * 3 + [ranks])),
        'hierarchy': (0.3, pick(['auto', 'off', 1, 2, 3, 'auto,1', 'auto,2', '2,2'])),
        'tune=bandwidth-mbps': (usual, pick([50, 1000.5])),
        **{name: (0.15, value) for name, value in ways(case).items()},
        'trace': (usual, pick(['trace.json', 'trace.json,1-3', 'trace.json,2'])),
        'tune=log': (usual, 'log.jsonl'),
        'curves': (usual, pick(['run.csv', 'board'])),
        'summary': (usual, pick(['summary.json', '-'])),
        'force': (usual, None),
        'epochs': (rare, pick([0.2, 1])),
        'tune=lowrank-warmup': (rare, pick([0, 3])),
    }


def parts(case, count):
    """Unlike shares of a batch."""
    return [case.random.randint(1, 4) for _ in range(count)]


def ways(case):
    """What decides only how messages travel."""
    pick = case.random.choice
    return {'tune=overlap': pick(['wfbp', 'backward', 'none']), 'tune=order': pick(['urgency', 'fifo']), 'tune=window': pick(['0', '1', '300', '64k']),
            'tune=chunk': pick(['4', '64', '1000', '512k']), 'tune=merge': pick(['0', '500', '64k'])}


def as_words(options):
    return [f'--{name}' + ('' if value is None else f'={value}') for name, value in options.items()]


def draw_options(case):
    drawn = {}
    for name, (chance, value) in option_values(case).items():
        if case.random.random() < chance:
            drawn[name] = value
    return drawn


def check_coverage(data, folder):
    """Every option of --help and every name of --tune has values here, and every one here is one."""
    def said(*words):
        return subprocess.run([POSEIDON, *words], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout

    listed = set(re.findall(r'^  --([a-z0-9-]+)', said('train', '--help'), re.M)) - {'help', 'solver', 'tune'}
    listed |= {'tune=' + name for name in re.findall(r'^  ([a-z-]+)', said('help', 'tuning').split('\nthe same for plan')[0], re.M)}
    known = set(option_values(Case(0, (1, 1), folder, data)))
    return [f'option --{name} is not covered' for name in sorted(listed - known)] + \
           [f'option --{name} is none of train --help' for name in sorted(known - listed)]


# ---- judges ----

def judge_options(case):
    """Any options: it ends as it should, or is refused."""
    options = draw_options(case)
    if {'weights', 'snapshot', 'resume'} & set(options):
        # the run that is gone on from, of two iterations
        prefix = 'run' if 'resume' in options else 'before'
        case.train(['--max-iter=2', '--set=snapshot_after_train=true', '--set=snapshot=0', f'--snapshot-prefix={case.path(prefix)}'])
    status, text = case.train(as_words(options), must=False)
    if status:
        return 'refused'
    for name in ('trace', 'summary'):
        if options.get(name, '-') != '-':
            with open(case.path(options[name].split(',')[0])) as f:
                json.load(f)
    if not {'dry-run', 'engine', 'fake-data'} & set(options) and case.fields.get('snapshot_after_train', True):
        ends = None if 'stop-after' in options or 'epochs' in options else options.get('max-iter', case.fields['max_iter'])
        case.final('run', ends)
    return 'ran'


def differences(first, second, start=None):
    """Blobs that are not the same: bit for bit, or where `start` is given to 2e-5 of what training has changed, and rounding."""
    if first.keys() != second.keys():
        return sorted(first.keys() ^ second.keys())
    bad = []
    for name, a in first.items():
        b = second[name]
        if start is None:
            if a.tobytes() != b.tobytes():
                bad.append(f'{name} by {abs(a - b).max():.1e}')
        elif name.startswith('data/') and a.size and abs(a - b).max() > 2e-5 * abs(a - start[name]).max() + 5e-7 * abs(a).max():
            bad.append(f'{name} by {abs(a - b).max():.1e} of {abs(a - start[name]).max():.1e}')
    return bad


def parameters(case, name, options):
    """What a training with these options leaves, under a prefix of that name."""
    case.train(as_words(options) + ['--set=snapshot_format=HDF5', '--set=snapshot_after_train=true', f'--snapshot-prefix={case.path(name)}'])
    return case.final(name)


def expect_same(what, bad):
    if bad:
        raise Fault(f'{what}: {", ".join(bad[:4])}' + (f' and {len(bad) - 4} more' if len(bad) > 4 else ''))


def judge_schemes(case):
    """Schemes that lose nothing train the same parameters."""
    pick, roles = case.random.choice, {'servers': case.random.randrange(case.ranks)}
    ps = parameters(case, 'ps', dict(ways(case), comm='ps', hierarchy='off', **roles))
    allreduce = parameters(case, 'allreduce', dict(ways(case), comm='allreduce', hierarchy='off', **roles))
    expect_same('ps and allreduce differ', differences(ps, allreduce))
    if case.net.smooth and case.fields['type'] in ('SGD', 'Nesterov') and case.fields.get('regularization_type') != 'L1':
        scheme, hierarchy = pick(['sfb', 'adam', 'paper', 'auto', 'allreduce', 'ps']), pick(['auto', 'off', 2, 3])
        start = parameters(case, 'start', {'set': 'max_iter=0'})
        other = parameters(case, 'other', dict(ways(case), comm=scheme, hierarchy=hierarchy, **roles))
        expect_same(f'ps and {scheme} differ', differences(ps, other, start))
    return 'ran'


def judge_resume(case):
    """It goes on in the middle as if nobody had stopped it."""
    pick = case.random.choice
    middle = case.random.randint(1, case.fields['max_iter'] - 1)
    options = dict(ways(case), comm=pick(['ps', 'sfb', 'allreduce', 'adam', 'paper']), hierarchy=pick(['auto', 'off', 2, 3]),
                   servers=case.random.randrange(case.ranks), set=f'snapshot={middle}')
    shares = parts(case, case.ranks - options['servers'])
    unlike = {'balance': pick([None, 'once', ','.join(map(str, shares))]),
              'global-batch': sum(shares) * pick([1, 2]) * case.fields.get('iter_size', 1)}
    # shares that are dealt by speed are kept; a net may show what has values for each sample
    if pick([False, False, True]) and not case.train(as_words(dict(unlike, servers=options['servers'], **{'dry-run': None})), must=False)[0]:
        options.update(unlike)
    whole = parameters(case, 'whole', options)
    options.update(snapshot=f'whole_iter_{middle}.solverstate.h5')
    expect_same(f'resumed at {middle}', differences(whole, parameters(case, 'resumed', options)))
    return 'ran'


def judge_grains(case):
    """One rank and several that share its grains train the same parameters."""
    pick, grain, found = case.random.choice, case.random.randint(1, 3), []
    grains, servers = pick([4, 8]), pick([0, 0, 1])
    batch, deal = grain * grains, {}
    for workers in 1, pick([2, 3, 4]):
        case.ranks = workers + servers
        if workers > 1 and (workers == 3 or pick([False, True])):
            cuts = [0] + sorted(case.random.sample(range(1, grains), workers - 1)) + [grains]
            deal = {'balance': ','.join(str(b - a) for a, b in zip(cuts, cuts[1:]))}
        found.append(parameters(case, f'on-{workers}', dict(
            dict(ways(case), **deal), comm=pick(['ps', 'allreduce', 'auto']), hierarchy=pick(['auto', 'off'] + ([] if deal else [1, 2])),
            servers=servers, threads=pick([1, 2]), reproducible=grain, **{'global-batch': batch})))
    expect_same(f'1 rank and {workers} differ', differences(*found))
    return 'ran'


# ---- the command line ----

def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seconds', type=float, help='begin no combination after so long')
    parser.add_argument('--count', type=int, help='so many combinations (default: 20, or as many as --seconds allows)')
    parser.add_argument('--seed', type=int, default=int(time.time()) % 1000000, help='of the first combination (default: by the clock)')
    parser.add_argument('--ranks', default='1-5', metavar='MIN-MAX')
    parser.add_argument('--keep', metavar='FOLDER', help='where the folders of combinations that failed are kept')
    a = parser.parse_args()
    if not re.fullmatch(r'[1-9]\d*(-[1-9]\d*)?', a.ranks):
        parser.error(f'--ranks={a.ranks}: expected MIN-MAX, as 1-5')
    bounds = [int(n) for n in a.ranks.split('-')]
    a.bounds = bounds[0], bounds[-1]
    if a.count is None and a.seconds is None:
        a.count = 20
    return a


def main():
    a, began = arguments(), time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    judges = [judge_options, judge_options, judge_schemes, judge_resume, judge_grains]
    counts = dict.fromkeys(['ran', 'refused', 'failed', 'trainings'], 0)
    with tempfile.TemporaryDirectory(prefix='poseidon-random.') as work:
        write_data(work)
        faults = check_coverage(work, work + '/help')
        print('\n'.join(faults + [f'seed {a.seed}']), flush=True)
        for i in itertools.count():
            if i == a.count or (a.seconds is not None and time.monotonic() - began > a.seconds):
                break
            case = Case(a.seed + i, a.bounds, f'{work}/{a.seed + i}', work)
            try:
                how = judges[case.stream(case.seed, 'judge').randrange(len(judges))](case)
            except Diverged:
                how = 'refused'
            except Fault as fault:
                how = 'failed'
                print(f'FAILED: seed {case.seed}, {case.ranks} ranks: {fault}\n    {case.last}\n    again: {sys.argv[0]} --seed={case.seed} '
                      f'--count=1 --ranks={a.ranks} --keep=FOLDER', flush=True)
                if a.keep:
                    shutil.copytree(case.folder, f'{a.keep}/{case.seed}', dirs_exist_ok=True)
            counts[how] += 1
            counts['trainings'] += case.trainings
            shutil.rmtree(case.folder)
        print('%d combinations, %d trainings: %d ran, %d were refused, %d failed' % (
            i, counts['trainings'], counts['ran'], counts['refused'], counts['failed']))
    sys.exit(1 if faults or counts['failed'] else 0)


if __name__ == '__main__':
    main()
