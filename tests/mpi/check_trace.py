#!/usr/bin/env python3
"""check_trace.py TRACE SUMMARY LOG [wfbp|none FIRST LAST]

Holds a trace against the trace-event form and against the run's own figures, and with FIRST and LAST
(the layers nearest to input and loss) against the order of events that its --tune=overlap promises.
"""
import json
import sys
from collections import defaultdict
from decimal import Decimal

TRANSFERS = {"send", "receive", "exchange"}
CATEGORIES = TRANSFERS | {"iteration", "forward", "backward", "update", "wait", "input", "copy", "sum", "pause",
                          "read"}


def fail(text, *about):
    sys.exit("check_trace: " + text + "".join(" %r" % (a,) for a in about))


def span(event):
    return event["ts"], event["ts"] + event["dur"]


def check_form(trace):
    if not isinstance(trace.get("traceEvents"), list):
        fail("expected an array traceEvents, found", trace.keys())
    named = set()
    spans = []
    for event in trace["traceEvents"]:
        for key in ("ph", "pid", "tid", "name", "args"):
            if key not in event:
                fail("an event lacks %s:" % key, event)
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                named.add((event["pid"], event["tid"]))
            continue
        if event["ph"] in "stf":
            continue
        if event["ph"] != "X" or event["cat"] not in CATEGORIES or not event["cname"]:
            fail("expected a span (X) of a known category, found", event)
        if event["ts"] < 0 or event["dur"] < 0:
            fail("a span begins before the trace or ends before it begins:", event)
        if (event["pid"], event["tid"]) not in named:
            fail("a span on a thread without a name:", event)
        if event["cat"] in TRANSFERS and not {"bytes", "peer", "scheme", "layer"} <= event["args"].keys():
            fail("a transfer without bytes, peer, scheme or layer:", event)
        if event["args"].get("queued_us", 0) < 0 or event["args"].get("posted_earlier_us", 0) < 0:
            fail("a transfer began before it was posted:", event)
        spans.append(event)
    return spans


def check_flows(trace, spans):
    """Arrows: each point within a span of its thread, in the order of time, from what made a message to what it is for."""
    threads, flows = defaultdict(list), defaultdict(list)
    for event in spans:
        threads[event["pid"], event["tid"]].append(event)
    for event in trace["traceEvents"]:
        if event["ph"] in "stf":
            flows[event["id"]].append(event)
    ways = defaultdict(int)
    for events in flows.values():
        if [e["ph"] for e in events] != ["s"] + ["t"] * (len(events) - 2) + ["f"]:
            fail("an arrow is not s, t, f:", events)
        on = []
        for event in events:
            around = [s for s in threads[event["pid"], event["tid"]] if span(s)[0] <= event["ts"] <= span(s)[1]]
            if not around:
                fail("an arrow hangs on no span:", event)
            on.append(min(around, key=lambda s: s["dur"]))
        transfers = [s for s in on if s["cat"] in TRANSFERS]
        if [s["cat"] for s in transfers] != ["send", "receive"]:
            fail("an arrow passes not one send and one receive:", [s["name"] for s in on])
        if [transfers[0]["args"][k] for k in ("layer", "iteration", "bytes")] != [
                transfers[1]["args"][k] for k in ("layer", "iteration", "bytes")]:
            fail("an arrow joins messages of two kinds:", transfers)
        back = events[0]["name"] == "way back"
        if back == any(s["name"].split(" ")[1] in ("gradient", "factors") for s in transfers):
            fail("an arrow has the wrong name:", [s["name"] for s in on])
        ways[events[0]["name"], on[0]["cat"], on[-1]["cat"]] += 1
    receives = sum(s["cat"] == "receive" for s in spans)
    if len(flows) != receives:
        fail("%d receives have %d arrows" % (receives, len(flows)))
    for (name, first, last), n in ways.items():
        if first == "send" and name == "gradient":
            fail("%d gradients come from no backward pass" % n)
    return ways


def check_nesting(spans):
    threads = defaultdict(list)
    for event in spans:
        threads[event["pid"], event["tid"]].append(event)
    for events in threads.values():
        open_spans = []
        for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
            start, end = span(event)
            while open_spans and open_spans[-1] <= start:
                open_spans.pop()
            if open_spans and end > open_spans[-1]:
                fail("a span ends after the one around it:", event)
            open_spans.append(end)


def check_bytes(spans, summary, log):
    """The trace holds the whole run: what it saw is what sync counted and the plan predicted."""
    sent, layers = defaultdict(int), defaultdict(lambda: [0, 0])
    iterations = summary["iterations"]
    for event in spans:
        if event["cat"] not in TRANSFERS:
            continue
        n, layer = event["args"]["bytes"], event["args"]["layer"]
        if event["cat"] != "receive":
            sent[event["pid"]] += n
            layers[layer][0] += n
        if event["cat"] != "send":
            layers[layer][1] += n
    for rank, expected in enumerate(summary["bytes_sent_per_iteration_by_rank"]):
        if sent[rank] != expected * iterations:
            fail("rank %d sent %d bytes by the trace, %d by its counters" %
                 (rank, sent[rank], expected * iterations))
    for line in log:
        if line["event"] != "layer":
            continue
        found = tuple(n / iterations for n in layers[line["layer"]])
        counted = (line["bytes_sent"], line["bytes_received"])
        predicted = (line["predicted_bytes_sent"], line["predicted_bytes_received"])
        if not found == counted == predicted:
            fail("layer %s: bytes by trace, counters, plan:" % line["layer"], found, counted, predicted)


def check_pairs(spans):
    """Aligned clocks: nothing arrives before it was sent, and each receive has its send."""
    count = defaultdict(int)
    for event in spans:
        a = event["args"]
        if event["cat"] == "send":
            count[event["pid"], a["peer"], a["layer"], a["iteration"], a["bytes"]] += 1
        if event["cat"] == "receive":
            count[a["peer"], event["pid"], a["layer"], a["iteration"], a["bytes"]] -= 1
    for key, n in count.items():
        if n != 0:
            fail("sends without receives, or the other way round: %+d" % n, key)


def check_every_layer(spans, layers):
    seen = defaultdict(set)
    for event in spans:
        if event["cat"] in ("forward", "backward"):
            seen[event["pid"], event["cat"], event["args"]["iteration"]].add(event["args"]["layer"])
    if not seen:
        fail("no passes")
    for key, found in seen.items():
        if not layers <= found:
            fail("layers missing", key, layers - found)


def check_reads(spans, reads):
    """Feeders' spans: on every worker in every iteration but the last, whose data was read ahead; in lanes."""
    seen = defaultdict(list)
    for event in spans:
        if event["cat"] == "read":
            seen[event["pid"]].append(event)
    workers = {event["pid"] for event in spans if event["cat"] == "forward"}
    if seen.keys() != (workers if reads else set()):
        fail("ranks whose feeders read:", sorted(seen), "of", sorted(workers))
    for pid, events in seen.items():
        batches = sum(event["pid"] == pid and event["cat"] == "input" for event in spans)
        if len(events) < batches or "layer" not in events[0]["args"]:
            fail("rank %d: %d batches were taken, found reads:" % (pid, batches), len(events), events[0])


def check_account(summary, log):
    """Asked for, nothing is left out: every layer's transfer was predicted and timed alone."""
    for line in log:
        if line["event"] == "layer":
            for key in ("predicted_seconds", "alone_seconds", "exposed_seconds"):
                if not isinstance(line[key], float | int) or line[key] < 0:
                    fail("layer %s: %s is" % (line["layer"], key), line[key])
    shares = [line["progress_core_share"] for line in log if line["event"] == "rank"]
    if shares != summary["progress_core_share_by_rank"] or not all(0 < share < 1.2 for share in shares):
        fail("the communication threads' shares of a core:", shares, summary["progress_core_share_by_rank"])
    if abs(log[0]["progress_core_share"] - sum(shares) / len(shares)) > 1e-6:
        fail("their mean:", log[0]["progress_core_share"], shares)


def check_bursts(spans, log):
    """How full each rank's link was, within what the trace allows."""
    for rank in (line for line in log if line["event"] == "rank"):
        sends = [event for event in spans if event["cat"] == "send" and event["pid"] == rank["rank"]]
        if not sends:
            continue
        bytes_sent, keys = sum(event["args"]["bytes"] for event in sends), ("full_seconds", "full_longest_seconds")
        full, longest = (rank["link_" + key] for key in keys)
        if not (0 <= full <= log[0]["seconds_per_iteration"] * 1.5 + 0.1 and 0 <= longest <= full * log[0]["iterations"] + 1e-9):
            fail("rank %d: its link is full for" % rank["rank"], full, longest)
        if not max(event["args"]["bytes"] for event in sends) <= rank["queued_bytes_most"] <= bytes_sent:
            fail("rank %d: queued" % rank["rank"], rank["queued_bytes_most"], bytes_sent)


def check_order(spans, overlap, first, last):
    begins, ends = {}, {}
    for event in spans:
        key = event["pid"], event["args"]["iteration"]
        layer = event["args"].get("layer")
        # what this rank puts on the wire of its own accord: gradients and factors come first
        if event["cat"] in ("send", "exchange") and layer == last:
            begins[key] = min(begins.get(key, event["ts"]), event["ts"])
        if event["cat"] == "backward" and layer == first:
            ends[key] = span(event)[1]
    both = begins.keys() & ends.keys()
    early = sum(begins[key] < ends[key] for key in both)
    if not both:
        fail("no transfer of %s beside a backward pass of %s" % (last, first))
    if overlap == "none" and early:
        fail("without overlap %d transfers of %s began before backward was over" % (early, last))
    if overlap == "wfbp" and not early:
        fail("%s never went on the wire before backward of %s was over" % (last, first))


def main():
    # exact decimals: spans that touch must not seem to cross
    with open(sys.argv[1], encoding="utf-8") as f:
        trace = json.load(f, parse_float=Decimal)
    with open(sys.argv[2], encoding="utf-8") as f:
        summary = json.load(f)
    with open(sys.argv[3], encoding="utf-8") as f:
        log = [json.loads(line) for line in f]
    kinds = [line["event"] for line in log]
    if kinds[0] != "run" or kinds[-1] != "advice" or kinds.count("rank") != summary["ranks"]:
        fail("the log's lines are", kinds)
    spans = check_form(trace)
    check_nesting(spans)
    check_pairs(spans)
    check_flows(trace, spans)
    check_bytes(spans, summary, log)
    check_account(summary, log)
    check_bursts(spans, log)
    check_reads(spans, "replay" not in summary["engine"])
    # a bucket of several layers is called "first .. last"
    named = {name for line in log if line["event"] == "layer" for name in line["layer"].split(" .. ")}
    check_every_layer(spans, named)
    if len(sys.argv) > 4:
        check_order(spans, *sys.argv[4:7])


main()
